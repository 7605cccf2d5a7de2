//! Shadow traffic: takes of a limit's candidate and of its lazy bucket, beside a live take.
//!
//! The live take has its answer by then. No result of a shadow take changes that answer.

use std::{sync::Arc, time::Duration};

use topup_wire::{counts::Count, limit::LimitName};

use crate::{
    bucket::Bucket,
    decision::Decision,
    error::Error,
    shell::{BucketEntry, LimitHandle, Published},
};

// === impl Bucket ===

impl Bucket {
    /// Repeats a take of `count` tokens on the shadow buckets of its limit. `decision` is `None` if Redis did not decide.
    pub(crate) fn repeat_in_shadow(
        &self,
        entry: &BucketEntry,
        published: &Published,
        count: u64,
        decision: Option<Decision>,
    ) {
        let limit = &published.limit;
        if limit.candidate {
            self.take_shadow(&limit.name.candidate(), entry.key(), count, entry.limit(), None);
        }
        if decision.is_some() && limit.is_compared(entry.key()) {
            self.take_shadow(&limit.name.lazy(), entry.key(), count, entry.limit(), decision);
        }
    }

    /// Takes `count` tokens of a shadow bucket, in a task of its own, and counts the decision for the limit `of`. With
    /// `live`, the shadow bucket is the lazy one, and its decision is compared with that of the live bucket. Otherwise
    /// it is the candidate.
    fn take_shadow(
        &self,
        name: &LimitName,
        key: Option<&str>,
        count: u64,
        of: &Arc<LimitHandle>,
        live: Option<Decision>,
    ) {
        let unanswered = if live.is_some() { Count::Uncompared } else { Count::CandidateUnasked };
        let shared = self.handle().shared();
        let entry = shared.buckets.get(&shared.limits, &shared.limits.get(*name), key);
        let permit = of.counts.shadow_takes().try_acquire_owned();
        let (Ok(permit), Ok(entry)) = (permit, entry) else { return of.counts.add(unanswered) };
        let (bucket, of) = (Self::of(self.handle(), &entry), of.clone());
        shared.runtime.spawn(async move {
            let shadow = match bucket.take(count).await {
                Ok(Decision::Degraded { .. }) => return of.counts.add(unanswered),
                Ok(decision) => decision,
                Err(Error::ExceedsCapacity { capacity, .. }) => {
                    Decision::Denied { remaining: 0, capacity, retry_after: Duration::MAX }
                }
                Err(_) => return of.counts.add(unanswered),
            };
            match live {
                Some(live) => of.counts.add_comparison(live, shadow),
                None => of.counts.add_candidate(shadow),
            }
            drop(permit);
        });
    }
}
