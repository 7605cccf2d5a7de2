//! Takes of several buckets, decided at once.

use std::sync::atomic::Ordering::Relaxed;

use topup_wire::{bucket::Operation, limit::Mode, reply::Verdict, scripts};

use crate::{
    bucket::{Bucket, decision},
    bucket_takes::{BucketTake, by_plan, in_one_hash_slot, merged, published, put_back, take_in_order},
    decision::Decision,
    error::Error,
    machine::Event,
    multi_decision::{LimitDecision, MultiDecision},
    outage,
    pause::read_if_paused,
    place::plan_changed,
    rollout::count_answer,
    shell::{Handle, exceeds, unknown},
};

/// Attempts at most while plans of keys change.
const MOST_ATTEMPTS: usize = 16;

// === impl MultiDecision ===

impl MultiDecision {
    /// Takes all of `takes`, or nothing. Several takes of one bucket are added up. Only the last attempt is counted, as
    /// `is_last` tells.
    pub(crate) async fn take(
        client: &Handle,
        takes: impl IntoIterator<Item = (Bucket, u64)>,
        is_last: impl FnOnce(&Self) -> bool,
    ) -> Result<Self, Error> {
        let takes = merged(takes)?;
        if let [take] = &takes[..] {
            let decision = take.bucket.take(take.count).await?;
            let decided = Self::of_one(&take.entry, decision);
            is_last(&decided);
            return Ok(decided);
        }
        Self::take_placed(client, &takes, is_last).await.map(|(decided, _)| decided)
    }

    /// Takes all of `takes`, or nothing, by a script. Returns the takes of the buckets that their keys have by their plans,
    /// too.
    pub(crate) async fn take_placed(
        client: &Handle,
        takes: &[BucketTake],
        is_last: impl FnOnce(&Self) -> bool,
    ) -> Result<(Self, Vec<BucketTake>), Error> {
        let mut decided = Err(Error::PlanChanged { limit: String::new() });
        let mut placed = Vec::new();
        for _ in 0..MOST_ATTEMPTS {
            // Boxed, since few limits have plans.
            let by_plan = Box::pin(by_plan(takes)).await;
            decided = match by_plan {
                Ok((of_plans, without)) => {
                    placed = of_plans;
                    Self::decide_beside(client, &placed, without).await
                }
                Err(error) => Err(error),
            };
            if !matches!(decided, Err(Error::PlanChanged { .. })) {
                break;
            }
        }
        match &decided {
            Ok(decided) => {
                if is_last(decided) {
                    decided.count(client, takes, &placed);
                }
            }
            Err(error) => {
                takes.iter().for_each(|take| count_answer(client, &take.entry, None, error.is_of_redis()));
            }
        }
        decided.map(|decided| (decided, placed))
    }

    /// Decides `takes`. The keys of `without` a bucket are exempt or denied.
    async fn decide_beside(
        client: &Handle,
        takes: &[BucketTake],
        mut without: Vec<LimitDecision>,
    ) -> Result<Self, Error> {
        if without.iter().any(|limit| !limit.decision.is_allowed()) {
            without.retain(|limit| !limit.decision.is_allowed());
            return Ok(Self { limits: without });
        }
        let mut decided = Self::decide(client, takes).await?;
        decided.limits.extend(without);
        Ok(decided)
    }

    /// Counts the takes. If a limit denies, the takes that it stopped are not counted.
    fn count(&self, client: &Handle, takes: &[BucketTake], placed: &[BucketTake]) {
        let without = takes.iter().filter(|take| !placed.iter().any(|placed| placed.is_of(&take.entry)));
        for take in placed.iter().chain(without) {
            let limit = self
                .limits
                .iter()
                .find(|limit| limit.limit == take.entry.name().live() && limit.key() == take.entry.key());
            let decision = limit.map(LimitDecision::decision);
            let counts = |decision: &Decision| decision.would_deny() || self.is_allowed();
            let Some(decision) = decision.filter(counts) else { continue };
            let limit = take.entry.limit();
            limit.note_decision(take.entry.kept_key(), &decision, || take.entry.is_paused(client));
            limit.counts.add_decision(&decision);
            if let Some(published) = limit.last().filter(|_| limit.is_on_trial()) {
                take.bucket.repeat_in_shadow(&take.entry, &published, take.count, Some(decision));
            }
        }
    }

    async fn decide(client: &Handle, takes: &[BucketTake]) -> Result<Self, Error> {
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
        if !is_split.load(Relaxed) || in_one_hash_slot(takes) {
            match Self::by_one_script(client, takes).await {
                Err(Error::Redis(error)) if scripts::is_cross_slot(error.inner()) => {
                    is_split.store(true, Relaxed);
                }
                Ok(None) => {}
                Ok(Some(decided)) => return Ok(decided),
                Err(error) => return Err(error),
            }
        }
        Self::in_order(takes).await
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

    /// Decides in one step; `None` when a limit has parts, or has changed since it was read, and nothing was done.
    async fn by_one_script(client: &Handle, takes: &[BucketTake]) -> Result<Option<Self>, Error> {
        let shared = client.shared();
        let published = published(takes).await?;
        if published.iter().any(|limit| limit.limit.algorithm.has_parts()) {
            // Two keys may have one part, of which no peek tells what another take leaves.
            return Ok(None);
        }
        let takes =
            takes.iter().zip(&published).map(|(take, limit)| (take, limit, limit.mode(take.entry.key())));
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
            if settled.verdict == Verdict::Denied {
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

    /// Decides one bucket after the other: first those of enforced limits, then the others if all of these allow.
    async fn in_order(takes: &[BucketTake]) -> Result<Self, Error> {
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
