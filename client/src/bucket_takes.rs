//! Takes of several buckets, one for each bucket.

use std::{borrow::Cow, sync::Arc};

use topup_wire::{
    bucket::Operation,
    limit::{Mode, OnOutage},
};

use crate::{
    bucket::{Bucket, Here, checked, decision},
    decision::Decision,
    error::Error,
    multi_decision::LimitDecision,
    outage::OutageReason,
    shell::{BucketEntry, Handle, Published, not_tokens},
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
    /// Whether it is of the same key of the same limit as `entry`, whatever the key's plan.
    pub(crate) fn is_of(&self, entry: &BucketEntry) -> bool {
        self.entry.name().live() == entry.name().live() && self.entry.key() == entry.key()
    }

    pub(crate) async fn settle(&self, operation: Operation) -> Result<Decision, Error> {
        let settled = Box::pin(self.bucket.handle().within_deadline(self.bucket.settle(operation))).await?;
        Ok(decision(&settled))
    }

    /// Takes as a single take does, where native commands may take: from memory, or by one command.
    pub(crate) async fn take(&self, published: &Arc<Published>, client: &Handle) -> Result<Decision, Error> {
        let is_possible = !published.refuses(self.count, client.shared().control.redis_now());
        if is_possible && published.terms.counts() && self.entry.may_take_here(client) {
            return self.entry.take(self.count, None, published, client).await;
        }
        self.settle(Operation::Take(self.count)).await
    }

    /// The decision in place of `error`, and the outage policy if that made it.
    pub(crate) fn without_redis(&self, error: &Error) -> Option<(Decision, Option<OnOutage>)> {
        let reason = OutageReason::of(error)?;
        if let Some(published) = self.bucket.last_published(&self.entry) {
            let key = self.entry.key();
            if published.mode(key) != Mode::Enforce {
                return Some((published.apply_mode(key, Err(error.clone())).ok()?, None));
            }
        }
        self.bucket.without_redis(&self.entry, self.count, reason).map(|(decision, by)| (decision, Some(by)))
    }

    /// The denial of this take, if the limit is enforced and the denial is known without Redis.
    pub(crate) fn remembered_denial(&self, client: &Handle) -> Option<LimitDecision> {
        let published = self.entry.published_or_paused(client)?;
        let denial = self.entry.denial(self.count, &published, client)?;
        let is_enforced = published.mode(self.entry.key()) == Mode::Enforce;
        is_enforced.then(|| LimitDecision::of(&self.entry, denial.into()))
    }
}

/// Whether one node of a cluster has all the buckets, as far as the worker knows.
pub(crate) fn in_one_hash_slot(takes: &[BucketTake]) -> bool {
    let hash_slot = |take: &BucketTake| Some(take.entry.limit().last()?.locate(&take.entry).keys.hash_slot);
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
        let is_same =
            |take: &&mut BucketTake| (take.entry.name(), take.entry.key()) == (entry.name(), entry.key());
        match merged.iter_mut().find(is_same) {
            Some(take) => {
                take.count += count;
                checked(take.count)?;
            }
            None => merged.push(BucketTake { bucket, entry, count }),
        }
    }
    Ok(merged)
}

/// The takes of the buckets that their keys have by their plans, and the decisions of keys without a bucket.
pub(crate) async fn by_plan(
    takes: &[BucketTake],
) -> Result<(Cow<'_, [BucketTake]>, Vec<LimitDecision>), Error> {
    if takes.iter().any(|take| take.bucket.is_to_be_placed(&take.entry)) {
        // Boxed, since few limits have plans.
        let (placed, without) = Box::pin(placed(takes)).await?;
        return Ok((Cow::Owned(placed), without));
    }
    Ok((Cow::Borrowed(takes), Vec::new()))
}

async fn placed(takes: &[BucketTake]) -> Result<(Vec<BucketTake>, Vec<LimitDecision>), Error> {
    let (mut placed, mut without) = (Vec::with_capacity(takes.len()), Vec::new());
    for take in takes {
        // A limit that was never read is read with the decision.
        if !take.bucket.is_to_be_placed(&take.entry) {
            placed.push(take.clone());
            continue;
        }
        match take.bucket.here().await? {
            Here::Bucket(bucket) => {
                let entry = bucket.entry()?.clone();
                placed.push(BucketTake { bucket, entry, count: take.count });
            }
            Here::Decided(decision) => {
                let decision = take.bucket.apply_mode(&take.entry, Ok(decision))?;
                without.push(LimitDecision::of(&take.entry, decision));
            }
        }
    }
    Ok((placed, without))
}

/// Gives tokens of local buckets back.
pub(crate) fn put_back(client: &Handle, takes: &[BucketTake], decisions: &[(Decision, Option<OnOutage>)]) {
    for (take, (decision, by)) in takes.iter().zip(decisions) {
        if *by == Some(OnOutage::Local) && decision.is_allowed() {
            take.entry.put_back_locally(take.count, client);
        }
    }
}
