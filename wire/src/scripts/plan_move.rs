//! The move of a key's tokens from the bucket of one plan to that of another.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script};

use super::{is_cross_slot, read_limit, script, settle};
use crate::{
    bucket::Operation,
    keyspace::{ShardKeys, shard_of},
    limit::{Algorithm, Limit, LimitName, Lost, OnChange},
    namespace::InNamespace,
    reply::Verdict,
};

static MOVE: LazyLock<Script> = script!(
    "schedule.lua" "rest.lua" "token_bucket.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "leaky_bucket.lua"
    "windows.lua" "fixed_window.lua" "sliding_window.lua" "sliding_counter.lua" "move.lua", after "take_packed.lua"
);

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
struct Steps<'a> {
    from: PlanBucket<'a>,
    to: PlanBucket<'a>,
    /// The plans after that of `from`: instants at which they begin, and their limits.
    behind: Vec<(u64, Result<&'a Limit, Lost>)>,
    /// The first change that is not made is long past from this instant on, in µs of Redis `TIME`.
    until: u64,
}

/// The content of a bucket. Tokens are below 0 in debt.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// With the part of the next token that has come.
    exact: f64,
    whole: i64,
    capacity: u64,
}

/// The mark of a move stays for this long after the last worker that wants to make it.
const MARK_STAYS: Duration = Duration::from_secs(5);
/// A worker that moves tokens in steps is alone for this long. One that died delays the others by no more.
const TURN: Duration = Duration::from_millis(60);
/// Attempts while other workers move the same tokens.
const ATTEMPTS: usize = 5;

/// Makes the changes that no worker has made, unless the last one is long past. Returns `false` if its instant has not come
/// yet, or if another worker is making them: call again after a ms.
///
/// # Errors
/// Errors of Redis. May be sent again: tokens may get lost then.
pub async fn move_tokens(connection: &mut impl InNamespace, change: PlanMove<'_>) -> RedisResult<bool> {
    let [_, .., (at, Ok(to))] = change.spans else { return Ok(true) };
    // A bucket that was left alone for the longest time that fills one is full.
    let fills = change.limit.plans_fill.max(to.0.fill_time());
    let key = connection.namespace().plan_mark(&change.limit.name, change.key);
    let mut now = change.now;
    for _ in 0..ATTEMPTS {
        let matters_for =
            at.saturating_add(fills).saturating_add(TURN.as_micros() as u64).saturating_sub(now);
        if matters_for == 0 {
            return Ok(true);
        }
        let keep = Duration::from_micros(matters_for) + MARK_STAYS;
        let millis = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX).min(1 << 41);
        let held: Option<String> = Cmd::get(&key).query_async(connection).await?;
        let held = held.unwrap_or_default();
        let made = held.split_once(' ').and_then(|(at, name)| Some((at.parse::<u64>().ok()?, name)));
        if made.is_some_and(|(made, _)| made >= *at) {
            return Ok(true);
        }
        let found = match made {
            Some((_, name)) => find(connection, &change, name).await?,
            None => None,
        };
        let found = found.as_ref().map(|(limit, keys)| (limit, keys));
        let marked = made.map(|(at, _)| at).zip(found);
        let steps = steps(change.spans, now.saturating_sub(fills), fills, *to, marked);
        if steps.behind.is_empty() {
            // The change is long past, but a worker may still be making it in steps.
            let turn = connection.namespace().plan_turn(&change.limit.name, change.key);
            return Cmd::exists(turn).query_async(connection).await.map(|is_taken: bool| !is_taken);
        }
        let mark = format!("{at} {}", to.0.name);
        let (outcome, then) =
            match move_at_once(connection, &change, &steps, [&key, &held, &mark], millis).await {
                Err(error) if is_cross_slot(&error) => {
                    move_in_steps(connection, &change, &steps, [&key, &held, &mark], millis).await?
                }
                told => told?,
            };
        match outcome {
            0 => return Ok(false),
            1 => return Ok(true),
            _ => now = now.max(then),
        }
    }
    Err(ParsingError::from("the tokens of the key are moved all the time").into())
}

/// The bucket of the limit or plan `name`, if that is published.
async fn find(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    name: &str,
) -> RedisResult<Option<(Limit, ShardKeys)>> {
    let known = change.spans.iter().filter_map(|(_, bucket)| bucket.ok());
    if let Some((limit, keys)) = known.into_iter().find(|(limit, _)| limit.name.as_str() == name) {
        return Ok(Some((limit.clone(), keys.clone())));
    }
    let Ok(name) = LimitName::published(name) else { return Ok(None) };
    let Some(read) = read_limit(connection, &name).await? else { return Ok(None) };
    let shard = shard_of(change.key, read.limit.shards);
    Ok(Some((read.limit, ShardKeys::new(connection.namespace(), &name, shard))))
}

/// The way of the tokens. The mark tells which bucket has had them since an instant. No worker makes a change that is long past,
/// and the bucket behind it may have been taken from without a mark. That bucket has the tokens then.
/// `past`: the instant up to which changes are long past.
fn steps<'a>(
    spans: &[(u64, Result<PlanBucket<'a>, Lost>)],
    past: u64,
    fills: u64,
    to: PlanBucket<'a>,
    marked: Option<(u64, PlanBucket<'a>)>,
) -> Steps<'a> {
    let since = marked.map_or(past, |(at, _)| at.max(past));
    // The first span begins at 0.
    let first = spans.partition_point(|(from, _)| *from <= since).max(1) - 1;
    let limits = |spans: &[(u64, Result<PlanBucket<'a>, Lost>)]| -> Vec<(u64, Result<&'a Limit, Lost>)> {
        spans.iter().map(|(from, bucket)| (*from, bucket.map(|(limit, _)| limit))).collect()
    };
    let (oldest, behind) = (spans[first], &spans[first + 1..]);
    let until = behind.first().map_or(0, |(from, _)| from.saturating_add(fills));
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
    Steps { from, to, behind: lost.into_iter().chain(limits(behind)).collect(), until }
}

async fn move_at_once(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    steps: &Steps<'_>,
    [key, held, mark]: [&str; 3],
    millis: u64,
) -> RedisResult<(u8, u64)> {
    let mut call = MOVE.key(key);
    for (limit, keys) in [steps.from, steps.to] {
        let algorithm = limit.algorithm;
        let state = keys.state(algorithm, change.key);
        match algorithm {
            Algorithm::TokenBucket => call.key(state).key(&keys.record).key(&keys.due).key(&keys.previous),
            Algorithm::Gcra => call.key(state).key(&keys.record),
            _ => call.key(&keys.record).key(state),
        };
    }
    let at = change.spans.last().map_or(0, |(from, _)| *from);
    call.arg(at).arg(held).arg(mark).arg(millis).arg(change.limit.on_change.as_str());
    call.arg(steps.from.0.algorithm.as_str()).arg(steps.to.0.algorithm.as_str());
    call.arg(steps.to.0.holds.max_debt()).arg(steps.until);
    for (from, limit) in &steps.behind {
        let (capacity, n, p) = numbers(*limit);
        call.arg(from).arg(capacity).arg(n).arg(p);
    }
    call.invoke_async(connection).await
}

/// Capacity, n and p; of plans that are lost, capacity 0.
fn numbers(limit: Result<&Limit, Lost>) -> (u64, u64, u64) {
    limit.map_or((0, 0, 1), |limit| {
        let (n, p) = limit.terms.supply.lowest_terms();
        (limit.terms.capacity.get(), n, p)
    })
}

/// The same on a cluster, where the two buckets and the mark are in several hash slots. The outcome is 0 also while another
/// worker does it.
async fn move_in_steps(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    steps: &Steps<'_>,
    [key, held, mark]: [&str; 3],
    millis: u64,
) -> RedisResult<(u8, u64)> {
    let turn = connection.namespace().plan_turn(&change.limit.name, change.key);
    let mut begin = Cmd::new();
    begin.arg("SET").arg(&turn).arg(mark).arg("NX").arg("PX").arg(TURN.as_millis() as u64);
    if begin.query_async::<Option<String>>(connection).await?.is_none() {
        return Ok((0, 0));
    }
    let now = super::now(connection).await?;
    // Another worker may have had its turn since the mark was read.
    let marked: Option<String> = Cmd::get(key).query_async(connection).await?;
    let outcome = if now < change.spans.last().map_or(0, |(from, _)| *from) {
        0
    } else if now >= steps.until {
        3
    } else if marked.unwrap_or_default() != held {
        2
    } else {
        take_steps(connection, change, steps, now, [key, mark], millis).await?;
        1
    };
    Cmd::del(&turn).exec_async(connection).await?;
    Ok((outcome, now))
}

/// Makes the move, one command after the other.
async fn take_steps(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    steps: &Steps<'_>,
    now: u64,
    [key, mark]: [&str; 2],
    millis: u64,
) -> RedisResult<()> {
    let (Some(from), Some(to)) =
        (held(connection, change, steps.from).await?, held(connection, change, steps.to).await?)
    else {
        return Ok(());
    };
    let mut goal = steps.tokens(from, change.limit.on_change, now).min(to.capacity.cast_signed());
    if steps.from.0.name != steps.to.0.name {
        match from.whole {
            0 => {}
            whole @ 1.. => {
                apply(connection, change, steps.from, Operation::Take(whole.cast_unsigned())).await?
            }
            debt => apply(connection, change, steps.from, Operation::Refund(debt.unsigned_abs())).await?,
        }
        if change.limit.on_change != OnChange::Reset {
            goal = goal.saturating_add(to.whole.min(0));
        }
    }
    // Others take by the new plan once they see the mark.
    let left = goal.clamp(0, to.whole.max(0));
    if left < to.whole {
        apply(connection, change, steps.to, Operation::Take(to.whole.abs_diff(left))).await?;
    }
    let mut mark_it = Cmd::new();
    mark_it.arg("SET").arg(key).arg(mark).arg("PX").arg(millis).arg("GET");
    let others: Option<String> = mark_it.query_async(connection).await?;
    if others.as_deref() == Some(mark) {
        return Ok(());
    }
    let (own, max_debt) = (to.whole.min(left), steps.to.0.holds.max_debt());
    if goal < own.min(0) {
        let charge = Operation::Charge { count: own.abs_diff(goal), most_debt: max_debt };
        apply(connection, change, steps.to, charge).await?;
    } else if goal > own && change.limit.on_change != OnChange::Proportional && is_rated(steps.to.0) {
        apply(connection, change, steps.to, Operation::Refund(own.abs_diff(goal))).await?;
    }
    Ok(())
}

fn is_rated(limit: &Limit) -> bool {
    limit.terms.supply.lowest_terms().0 > 0
}

async fn apply(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    (limit, keys): PlanBucket<'_>,
    operation: Operation,
) -> RedisResult<()> {
    settle(connection, limit.algorithm, keys, change.key, operation, false, 0).await.map(drop)
}

/// As `held` of `move.lua`. `None` if the limit is not published.
async fn held(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    (limit, keys): PlanBucket<'_>,
) -> RedisResult<Option<Held>> {
    let mut peek = async |count| {
        settle(connection, limit.algorithm, keys, change.key, Operation::Peek(count), false, 0).await
    };
    let told = peek(1).await?;
    if told.verdict == Verdict::Unknown {
        return Ok(None);
    }
    let (tokens, capacity) = (told.tokens, told.capacity);
    let mut held = Held { exact: tokens as f64, whole: tokens.cast_signed(), capacity };
    let (_, n, p) = numbers(Ok(limit));
    if n > 0 && tokens < capacity {
        let wait = peek(capacity).await?.wait;
        let exact = capacity as f64 - wait as f64 * (n as f64 / p as f64);
        if tokens > 0 || !limit.catch_up {
            held.exact = exact.clamp(tokens as f64, tokens as f64 + 1.0);
        } else {
            held.exact = exact.min(1.0);
            held.whole = ((exact + 1e-6).floor() as i64).min(0);
        }
    }
    Ok(Some(held))
}

// === impl Steps ===

impl Steps<'_> {
    /// The tokens at `now`, as `move.lua` computes them.
    fn tokens(&self, from: Held, on_change: OnChange, now: u64) -> i64 {
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
        (tokens + 1e-6).floor() as i64
    }
}
