//! Takes of several buckets, one after the other: where no script has all of them, or native commands are cheaper.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use topup_wire::{bucket::Operation, limit::Mode};

use crate::{
    bucket_takes::BucketTake,
    decision::Decision,
    error::Error,
    machine::{Event, Micros},
    multi_decision::{LimitDecision, MultiDecision},
    shell::{Handle, Published},
};

// === impl MultiDecision ===

impl MultiDecision {
    /// Decides one bucket after the other: first those of enforced limits, then the others if all of these allow.
    pub(super) async fn in_order(
        client: &Handle,
        takes: &[BucketTake],
        published: &[Arc<Published>],
    ) -> Result<Self, Error> {
        let _wanted = Wanted::add(client, takes);
        let mut decisions = vec![None; takes.len()];
        let is_enforced = |i: &usize| published[*i].mode(takes[*i].entry.key()) == Mode::Enforce;
        let (mut enforced, others): (Vec<usize>, Vec<usize>) = (0..takes.len()).partition(is_enforced);
        enforced.sort_by_key(|i| !is_first(&takes[*i], &published[*i]));
        take_enforced(client, takes, published, &enforced, &mut decisions).await?;
        let allowed = decisions.iter().flatten().all(Decision::is_allowed);
        for i in others {
            let take = &takes[i];
            let operation = if allowed { Operation::Take(take.count) } else { Operation::Peek(take.count) };
            // A limit that was removed meanwhile has no part in the decision.
            decisions[i] = published[i].apply_mode(take.entry.key(), take.settle(operation).await).ok();
        }
        let decided = takes.iter().zip(decisions);
        let limits = decided.filter_map(|(take, decision)| Some(LimitDecision::of(&take.entry, decision?)));
        Ok(Self { limits: limits.collect() })
    }
}

/// Whether `takes` are cheaper one after the other, by native commands and from memory. They are of one bucket of a key, one
/// for all keys, and any with leases.
///
/// If a bucket for all keys denies, the tokens of the key have to be put back. A script takes none of them, so it decides where
/// the worker does not know of plenty for all of its takes.
pub(super) fn is_cheaper_in_order(
    client: &Handle,
    takes: &[BucketTake],
    published: &[Arc<Published>],
) -> bool {
    let now = client.shared().control.redis_now();
    let others = client.shared().wanted_in_order.load(Relaxed);
    let (mut keyed, mut for_all) = (0, 0);
    let are_native = takes.iter().zip(published).all(|(take, published)| {
        let is_first = is_first(take, published);
        match published.limit.lease {
            Some(_) => {}
            None if is_first => keyed += 1,
            None => for_all += 1,
        }
        published.mode(take.entry.key()) == Mode::Enforce
            && published.terms.counts()
            && !published.refuses(take.count, now)
            && (is_first || take.entry.has_plenty(others.saturating_add(take.count), published, client))
    });
    are_native && keyed <= 1 && for_all <= 1
}

/// Whether a bucket of one key, whose denials are to cost the other buckets nothing.
fn is_first(take: &BucketTake, published: &Published) -> bool {
    take.entry.key().is_some() && published.limit.lease.is_none()
}

/// Takes of the buckets at the indexes `enforced`, in order. If one denies, the tokens of those before it are put back,
/// and those after it are only peeked at.
async fn take_enforced(
    client: &Handle,
    takes: &[BucketTake],
    published: &[Arc<Published>],
    enforced: &[usize],
    decisions: &mut [Option<Decision>],
) -> Result<(), Error> {
    // An error, or the end of the deadline, puts back what was taken before.
    let mut granted = Granted(Vec::with_capacity(enforced.len()));
    for (done, &i) in enforced.iter().enumerate() {
        let (take, published, since) = (&takes[i], &published[i], client.shared().clock.now());
        let decision = take.take(published, client).await?;
        decisions[i] = Some(decision);
        if decision.is_allowed() {
            granted.0.push((take, published, since));
            continue;
        }
        for &before in &enforced[..done] {
            let (take, published, since) = granted.0.remove(0);
            if !put_back_natively(take, published, since) {
                decisions[before] = Some(take.settle(Operation::Refund(take.count)).await?);
            } else if let Some(Decision::Allowed { remaining, .. }) = &mut decisions[before] {
                *remaining += take.count;
            }
        }
        for &after in &enforced[done + 1..] {
            decisions[after] = Some(takes[after].settle(Operation::Peek(takes[after].count)).await?);
        }
        break;
    }
    granted.0.clear();
    Ok(())
}

/// Puts the tokens of a native take back as those that no caller got: at once, or they are lost to their bucket. They were
/// granted after `since`. False for a take by a script.
fn put_back_natively(take: &BucketTake, published: &Arc<Published>, since: Micros) -> bool {
    if published.terms.counts() {
        let event = Event::Unwanted { tokens: take.count, since };
        take.entry.step_under(event, published, take.bucket.handle(), None);
    }
    published.terms.counts()
}

/// Takes that were allowed, with the instants before them. The tokens of those that are left are put back when this is
/// dropped.
struct Granted<'t>(Vec<(&'t BucketTake, &'t Arc<Published>, Micros)>);

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        for (take, published, since) in self.0.drain(..) {
            if !put_back_natively(take, published, since) {
                let (take, runtime) = (take.clone(), take.bucket.handle().shared().runtime.clone());
                runtime.spawn(async move { take.settle(Operation::Refund(take.count)).await });
            }
        }
    }
}

/// Tokens that a decision is about to take of each bucket, while this lives.
struct Wanted<'c>(&'c AtomicU64, u64);

impl<'c> Wanted<'c> {
    fn add(client: &'c Handle, takes: &[BucketTake]) -> Self {
        let wanted =
            Self(&client.shared().wanted_in_order, takes.iter().map(|take| take.count).max().unwrap_or(0));
        wanted.0.fetch_add(wanted.1, Relaxed);
        wanted
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Relaxed);
    }
}
