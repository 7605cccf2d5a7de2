//! Shadow traffic: takes of a limit's candidate and of its lazy bucket, beside a live take.
//!
//! The live take has its answer by then. No result of a shadow take changes that answer.

use std::{sync::Arc, time::Duration};

use topup_wire::{counts::Count, limit::LimitName};

use crate::{
    bucket::Bucket,
    decision::Decision,
    error::Error,
    shell::{BucketEntry, Published},
    trial_metrics::TrialMetrics,
};

// === impl Bucket ===

impl Bucket {
    /// Counts the decision of a take of `count` tokens, if its limit is on trial; `None` if Redis did not decide. Repeats
    /// the take on the shadow buckets of the limit.
    pub(crate) fn record_trial(
        &self,
        entry: &BucketEntry,
        published: &Published,
        count: u64,
        decision: Option<Decision>,
    ) {
        let Some(metrics) = &published.trial else { return };
        metrics.add(match decision {
            Some(Decision::Allowed { .. }) => Count::Allowed,
            Some(Decision::Denied { .. }) => Count::Denied,
            Some(Decision::Degraded { .. }) | None => Count::Undecided,
            Some(Decision::Shadowed { .. }) => Count::WouldDeny,
        });
        let limit = &published.limit;
        if limit.candidate {
            self.take_shadow(&limit.name.candidate(), entry.key(), count, metrics, None);
        }
        if decision.is_some() && limit.is_compared(entry.key()) {
            self.take_shadow(&limit.name.lazy(), entry.key(), count, metrics, decision);
        }
    }

    /// Takes `count` tokens of a shadow bucket, in a task of its own, and counts the decision. With `live`, the shadow
    /// bucket is the lazy one, and its decision is compared with that of the live bucket. Otherwise it is the candidate.
    fn take_shadow(
        &self,
        name: &LimitName,
        key: Option<&str>,
        count: u64,
        metrics: &Arc<TrialMetrics>,
        live: Option<Decision>,
    ) {
        let unanswered = if live.is_some() { Count::Uncompared } else { Count::CandidateUnasked };
        let shared = self.handle().shared();
        let entry = shared.buckets.get(&shared.limits, &shared.limits.get(*name), key);
        let permit = metrics.shadow_takes.clone().try_acquire_owned();
        let (Ok(permit), Ok(entry)) = (permit, entry) else { return metrics.add(unanswered) };
        let (bucket, metrics) = (Self::of(self.handle(), &entry), metrics.clone());
        shared.runtime.spawn(async move {
            let shadow = match bucket.take(count).await {
                Ok(Decision::Degraded { .. }) => return metrics.add(unanswered),
                Ok(decision) => decision,
                Err(Error::ExceedsCapacity { capacity, .. }) => {
                    Decision::Denied { remaining: 0, capacity, retry_after: Duration::MAX }
                }
                Err(_) => return metrics.add(unanswered),
            };
            match live {
                Some(live) => metrics.add_comparison(live, shadow),
                None => metrics.add_candidate(shadow),
            }
            drop(permit);
        });
    }
}
