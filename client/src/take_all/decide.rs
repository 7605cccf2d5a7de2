//! The decision on several takes: from memory, by Redis, or by the outage policies.

use std::sync::atomic::Ordering::Relaxed;

use topup_wire::scripts;

use super::in_order::is_cheaper_in_order;
use crate::{
    bucket_takes::{BucketTake, in_one_hash_slot, published, put_back},
    error::Error,
    multi_decision::{LimitDecision, MultiDecision},
    outage,
    pause::read_if_paused,
    shell::Handle,
};

// === impl MultiDecision ===

impl MultiDecision {
    pub(super) async fn decide(client: &Handle, takes: &[BucketTake]) -> Result<Self, Error> {
        read_if_paused(client, takes.iter().map(|take| &take.entry)).await;
        let limits: Vec<_> = takes.iter().filter_map(|take| take.remembered_denial(client)).collect();
        if !limits.is_empty() || takes.is_empty() {
            return Ok(Self { limits });
        }
        let decided = match takes.iter().try_for_each(|take| client.check_circuit(&take.entry)) {
            Ok(()) => client.within_deadline(Self::ask(client, takes)).await,
            Err(error) => Err(error),
        };
        if matches!(decided, Err(Error::PlanChanged { .. })) {
            return decided;
        }
        for take in takes {
            client.note_reply(&take.entry, &decided);
        }
        decided.or_else(|error| Self::without_redis(client, takes, error))
    }

    async fn ask(client: &Handle, takes: &[BucketTake]) -> Result<Self, Error> {
        let is_split = &client.shared().buckets_are_split;
        let mut limits = published(takes).await?;
        if !is_cheaper_in_order(client, takes, &limits)
            && (!is_split.load(Relaxed) || in_one_hash_slot(takes))
        {
            match Box::pin(Self::by_one_script(client, takes, &limits)).await {
                Err(Error::Redis(error)) if scripts::is_cross_slot(error.inner()) => {
                    is_split.store(true, Relaxed);
                }
                Ok(None) => limits = published(takes).await?,
                Ok(Some(decided)) => return Ok(decided),
                Err(error) => return Err(error),
            }
        }
        Self::in_order(client, takes, &limits).await
    }

    /// The decision in place of `error`: that of the outage policies. A limit that is not enforced allows.
    fn without_redis(client: &Handle, takes: &[BucketTake], error: Error) -> Result<Self, Error> {
        let mut decisions = Vec::with_capacity(takes.len());
        for take in takes {
            match take.without_redis(&error) {
                Some(decision) => decisions.push(decision),
                // The caller gets the error, and tokens of local buckets stay.
                None => {
                    put_back(client, takes, &decisions);
                    return Err(error);
                }
            }
        }
        if !decisions.iter().all(|(decision, _)| decision.is_allowed()) {
            put_back(client, takes, &decisions);
        }
        for (take, (decision, by)) in takes.iter().zip(&decisions) {
            if let Some(by) = by {
                outage::note(client, &take.entry, *decision, *by, &error);
            }
        }
        let decided = takes.iter().zip(decisions);
        let limits = decided.map(|(take, (decision, _))| LimitDecision::of(&take.entry, decision));
        Ok(Self { limits: limits.collect() })
    }
}
