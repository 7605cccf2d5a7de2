//! Takes of several buckets, one after the other: in a cluster, no script has all of them.

use topup_wire::{bucket::Operation, limit::Mode};

use crate::{
    bucket_takes::{BucketTake, published, take_in_order},
    decision::Decision,
    error::Error,
    multi_decision::{LimitDecision, MultiDecision},
};

// === impl MultiDecision ===

impl MultiDecision {
    /// Decides one bucket after the other: first those of enforced limits, then the others if all of these allow.
    pub(super) async fn in_order(takes: &[BucketTake]) -> Result<Self, Error> {
        let published = published(takes).await?;
        let mut decisions = vec![None; takes.len()];
        let is_enforced = |i: &usize| published[*i].mode(takes[*i].entry.key()) == Mode::Enforce;
        let (enforced, others): (Vec<usize>, Vec<usize>) = (0..takes.len()).partition(is_enforced);
        take_in_order(takes, &enforced, &mut decisions).await?;
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
