//! Takes of several buckets, decided at once.

mod decide;
mod in_order;
mod one_script;

use std::borrow::Cow;

use crate::{
    bucket::Bucket,
    bucket_takes::{BucketTake, by_plan, merged},
    decision::Decision,
    error::Error,
    multi_decision::{LimitDecision, MultiDecision},
    rollout::count_answer,
    shell::Handle,
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
    pub(crate) async fn take_placed<'t>(
        client: &Handle,
        takes: &'t [BucketTake],
        is_last: impl FnOnce(&Self) -> bool,
    ) -> Result<(Self, Cow<'t, [BucketTake]>), Error> {
        let mut decided = Err(Error::PlanChanged { limit: String::new() });
        let mut placed = Cow::Borrowed(takes);
        for _ in 0..MOST_ATTEMPTS {
            decided = match by_plan(takes).await {
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
}
