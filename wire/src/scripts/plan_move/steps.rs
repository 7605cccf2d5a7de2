//! The way of a key's tokens over its changes of plan, and how many of them reach its end.

use crate::{
    keyspace::ShardKeys,
    limit::{Limit, Lost, OnChange},
};

/// A bucket of a limit or of a plan.
pub type PlanBucket<'a> = (&'a Limit, &'a ShardKeys);

/// A key's last changes of plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanMove<'a> {
    /// The limit, and not a plan of it.
    pub limit: &'a Limit,
    /// The key.
    pub key: &'a str,
    /// The instant of the call, or an earlier one, in µs of Redis `TIME`.
    pub now: u64,
    /// The buckets of its plans, the oldest first, and the instants at which their times begin. Unknown ones are [`Lost`].
    pub spans: &'a [(u64, Result<PlanBucket<'a>, Lost>)],
}

/// The tokens of a key are in one bucket, and are to be in another.
#[derive(Clone, Debug)]
pub(super) struct Steps<'a> {
    pub(super) from: PlanBucket<'a>,
    pub(super) to: PlanBucket<'a>,
    /// The plans after that of `from`: instants at which they begin, and their limits.
    pub(super) behind: Vec<(u64, Result<&'a Limit, Lost>)>,
    /// The first change that is not made is long past from this instant on, in µs of Redis `TIME`.
    pub(super) until: u64,
}

/// The content of a bucket. Tokens are below 0 in debt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// With the part of the next token that has come.
    pub(super) exact: f64,
    pub(super) whole: i64,
    pub(super) capacity: u64,
}

// === impl Steps ===

impl Steps<'_> {
    /// The whole tokens at `now`, as `move.lua` computes them, of a bucket that has `part` of the next one already.
    pub(super) fn tokens(&self, from: Held, on_change: OnChange, now: u64, part: f64) -> i64 {
        let pace = |n: u64, p: u64| n as f64 / p as f64;
        let (_, n, p) = numbers(Ok(self.from.0));
        let (mut tokens, mut capacity) = (from.exact, from.capacity);
        if from.whole < capacity.cast_signed() {
            let first = self.behind.first().map_or(now, |(from, _)| *from);
            tokens -= now.saturating_sub(first) as f64 * pace(n, p);
        }
        let ends = self.behind.iter().skip(1).map(|(from, _)| *from).chain([now]);
        for ((begins, limit), ends) in self.behind.iter().zip(ends) {
            let (most, n, p) = numbers(*limit);
            if most == 0 {
                tokens = tokens.min(0.0);
                continue;
            }
            tokens = match on_change {
                OnChange::Reset => most as f64,
                OnChange::Proportional if tokens >= capacity as f64 => most as f64,
                OnChange::Proportional if tokens > 0.0 => tokens * most as f64 / capacity as f64,
                OnChange::Keep | OnChange::Proportional => tokens,
            };
            tokens =
                (tokens.min(most as f64) + ends.saturating_sub(*begins) as f64 * pace(n, p)).min(most as f64);
            capacity = most;
        }
        let is_full = tokens + 1e-6 >= self.to.0.terms.capacity.get() as f64;
        // A part that has just begun costs no token.
        (if is_full { tokens } else { tokens - part } + 1e-3).floor() as i64
    }
}

/// The way of the tokens. The mark tells which bucket has had them since an instant. No worker makes a change that is long past.
/// The bucket behind it may have been taken from without a mark: then it has the tokens.
/// `past`: the instant up to which changes are long past.
pub(super) fn steps<'a>(
    spans: &[(u64, Result<PlanBucket<'a>, Lost>)],
    past: u64,
    fills: u64,
    to: PlanBucket<'a>,
    marked: Option<(u64, PlanBucket<'a>)>,
    on_change: OnChange,
) -> Steps<'a> {
    let since = marked.map_or(past, |(at, _)| at.max(past));
    // The first span begins at 0.
    let first = spans.partition_point(|(from, _)| *from <= since).max(1) - 1;
    let limits = |spans: &[(u64, Result<PlanBucket<'a>, Lost>)]| -> Vec<(u64, Result<&'a Limit, Lost>)> {
        spans.iter().map(|(from, bucket)| (*from, bucket.map(|(limit, _)| limit))).collect()
    };
    let (oldest, behind) = (spans[first], &spans[first + 1..]);
    let (from, lost) = match (oldest.1, marked) {
        (Ok(from), _) => (from, None),
        // The plan after the mark is not known, up to the first one that is.
        (Err(Lost), Some((at, from))) => (from, Some(at)),
        // Nor is the first one, so its tokens are lost.
        (Err(Lost), None) => {
            let known = behind.iter().find_map(|(_, bucket)| bucket.ok()).unwrap_or(to);
            (known, Some(behind.first().map_or(0, |(from, _)| *from)))
        }
    };
    let lost = lost.map(|at| (at, Err(Lost)));
    let mut behind: Vec<_> = lost.into_iter().chain(limits(behind)).collect();
    // A worker that knew a lost plan, and found it to be another one, has set a mark. If the plan after it is the one before
    // it, others may have taken from its bucket since, who knew of no change.
    let known = behind.iter().position(|(_, limit)| limit.is_ok());
    if let Some(known @ 1..) = known
        && behind[known].1.is_ok_and(|limit| limit.name == from.0.name)
        && (marked.is_some() || oldest.1.is_ok() || on_change == OnChange::Reset)
    {
        behind.drain(..=known);
    }
    let until = behind.first().map_or(0, |(from, _)| from.saturating_add(fills));
    Steps { from, to, behind, until }
}

/// Capacity, n and p; of plans that are lost, capacity 0.
pub(super) fn numbers(limit: Result<&Limit, Lost>) -> (u64, u64, u64) {
    limit.map_or((0, 0, 1), |limit| {
        let (n, p) = limit.terms.supply.lowest_terms();
        (limit.terms.capacity.get(), n, p)
    })
}
