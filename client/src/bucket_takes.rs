//! Takes of several buckets, one for each bucket.

use std::sync::Arc;

use topup_wire::bucket::Operation;

use crate::{
    bucket::{Bucket, checked, decision},
    decision::Decision,
    error::Error,
    shell::{BucketEntry, Published, not_tokens},
};

/// A take of `count` tokens of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct BucketTake {
    pub(crate) bucket: Bucket,
    pub(crate) entry: Arc<BucketEntry>,
    pub(crate) count: u64,
}

// === impl BucketTake ===

impl BucketTake {
    /// Whether both are takes of one key of one limit, whatever its plan.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.entry.name().live() == other.entry.name().live() && self.entry.key() == other.entry.key()
    }

    pub(crate) async fn settle(&self, operation: Operation) -> Result<Decision, Error> {
        let settled = self.bucket.handle().within_deadline(self.bucket.settle(operation)).await?;
        Ok(decision(&settled))
    }
}

/// Takes of the buckets at the indexes `enforced`, in order. If one denies, the tokens of those before it are put back,
/// and those after it are only peeked at.
pub(crate) async fn take_in_order(
    takes: &[BucketTake],
    enforced: &[usize],
    decisions: &mut [Option<Decision>],
) -> Result<(), Error> {
    let mut taken = Taken(Vec::new());
    for (done, &i) in enforced.iter().enumerate() {
        // An error, or the end of the deadline, puts back what was taken before.
        let decision = takes[i].settle(Operation::Take(takes[i].count)).await?;
        decisions[i] = Some(decision);
        if decision.is_allowed() {
            taken.0.push(takes[i].clone());
            continue;
        }
        for &before in &enforced[..done] {
            taken.0.remove(0);
            decisions[before] = Some(takes[before].settle(Operation::Refund(takes[before].count)).await?);
        }
        for &after in &enforced[done + 1..] {
            decisions[after] = Some(takes[after].settle(Operation::Peek(takes[after].count)).await?);
        }
        break;
    }
    taken.0.clear();
    Ok(())
}

/// Takes whose tokens are put back when this is dropped, in a task of their own. Tokens that cannot be put back are lost to
/// their buckets.
struct Taken(Vec<BucketTake>);

impl Drop for Taken {
    fn drop(&mut self) {
        for take in self.0.drain(..) {
            let runtime = take.bucket.handle().shared().runtime.clone();
            runtime.spawn(async move { take.settle(Operation::Refund(take.count)).await });
        }
    }
}

/// Whether one node of a cluster has all the buckets, as far as the worker knows.
pub(crate) fn in_one_hash_slot(takes: &[BucketTake]) -> bool {
    let hash_slot =
        |take: &BucketTake| Some(take.entry.limit().last()?.locate(take.entry.key()).keys.hash_slot);
    let mut hash_slots = takes.iter().map(hash_slot);
    let first = hash_slots.next().flatten();
    first.is_some() && hash_slots.all(|slot| slot == first)
}

/// The limit of each bucket.
pub(crate) async fn published(takes: &[BucketTake]) -> Result<Vec<Arc<Published>>, Error> {
    let mut published = Vec::with_capacity(takes.len());
    for take in takes {
        let handle = take.bucket.handle();
        let read = handle.within_deadline(take.entry.read(handle)).await?;
        if read.limit.algorithm.has_permits() {
            return Err(not_tokens(&take.entry));
        }
        published.push(read);
    }
    Ok(published)
}

/// One take for each bucket.
pub(crate) fn merged(takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Vec<BucketTake>, Error> {
    let mut merged: Vec<BucketTake> = Vec::new();
    for (bucket, count) in takes {
        checked(count)?;
        let entry = bucket.entry()?.clone();
        match merged.iter_mut().find(|take| take.entry.is_of(entry.name(), entry.key())) {
            Some(take) => {
                take.count += count;
                checked(take.count)?;
            }
            None => merged.push(BucketTake { bucket, entry, count }),
        }
    }
    Ok(merged)
}
