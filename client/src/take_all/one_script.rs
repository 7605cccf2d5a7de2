//! Takes of several buckets by one script.

use std::sync::Arc;

use topup_wire::{limit::Mode, reply::Verdict, scripts};

use crate::{
    bucket::decision,
    bucket_takes::BucketTake,
    error::Error,
    machine::Event,
    multi_decision::{LimitDecision, MultiDecision},
    place::plan_changed,
    shell::{Handle, Published, exceeds, unknown},
};

// === impl MultiDecision ===

impl MultiDecision {
    /// Decides in one step; `None` when a limit has parts, or has changed since it was read, and nothing was done.
    pub(super) async fn by_one_script(
        client: &Handle,
        takes: &[BucketTake],
        published: &[Arc<Published>],
    ) -> Result<Option<Self>, Error> {
        let shared = client.shared();
        if published.iter().any(|limit| limit.limit.algorithm.has_parts()) {
            // Two keys may have one part, of which no peek tells what another take leaves.
            return Ok(None);
        }
        let takes =
            takes.iter().zip(published).map(|(take, limit)| (take, limit, limit.mode(take.entry.key())));
        let parts = takes.clone().filter(|(.., mode)| *mode != Mode::Off).map(|(take, limit, mode)| {
            let location = limit.locate(&take.entry);
            scripts::BucketTake {
                algorithm: location.algorithm(),
                keys: location.keys,
                member: location.member,
                count: take.count,
                enforced: mode == Mode::Enforce,
            }
        });
        let parts: Vec<_> = parts.collect();
        for (take, ..) in takes.clone() {
            if !take.entry.may_take_here(client) {
                return Err(plan_changed(&take.entry));
            }
        }
        let sent = shared.clock.now();
        let mut replies = match &parts[..] {
            [] => Vec::new().into_iter(),
            parts => {
                scripts::take_all(&mut shared.connection(), parts).await.map_err(Error::redis)?.into_iter()
            }
        };
        let mut limits = Vec::with_capacity(published.len());
        for (take, limit, mode) in takes {
            let (entry, key) = (&take.entry, take.entry.key());
            if let Some(decision) = limit.decision_if_off(key) {
                limits.push(LimitDecision::of(entry, decision));
                continue;
            }
            let Some(settled) = replies.next() else { return Ok(None) };
            let result = match settled.verdict {
                Verdict::Unknown => {
                    entry.limit().invalidate();
                    if mode == Mode::Enforce {
                        return Ok(None);
                    }
                    Err(unknown(entry))
                }
                Verdict::ExceedsCapacity => Err(exceeds(entry, take.count, settled.capacity)),
                _ => Ok(decision(&settled)),
            };
            if settled.verdict == Verdict::Denied || limit.terms.counts() {
                let event = Event::Heard { settled, count: take.count, sent };
                entry.step_under(event, limit, client, None);
            }
            match limit.apply_mode(key, result) {
                Ok(decision) => limits.push(LimitDecision::of(entry, decision)),
                // A limit in shadow that was removed meanwhile has no part in the decision.
                Err(Error::UnknownLimit { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Self { limits }))
    }
}
