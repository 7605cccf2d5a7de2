//! The begin of a round, and its end: what a success or a failure leads to.

use std::collections::BTreeSet;

use redis::RedisError;
use topup_wire::{connection::Connection, limit::LimitName};

use super::{
    round::{EndedRound, Round, RoundOutcome, Running, claim_and_publish},
    state::Publication,
};
use crate::{
    clock::Moment,
    publish::{PublishOptions, PublishOutcome, freeze_ahead, publish, review},
    refill::{freezes::AppliesFrom, in_flight::InFlight, timeouts::RETRY_PAUSE},
};

// === impl Publication ===

impl Publication {
    /// Begins the round that is due at `now`, in µs of Redis `TIME`, unless one is in flight.
    pub(in crate::refill) fn begin(&mut self, connection: &Connection, now: u64) {
        if !self.publishes
            || self.running.is_some()
            || self.failed.is_some_and(|failed| failed.elapsed() < RETRY_PAUSE)
        {
            return;
        }
        let Some((round, mut desired)) = self.next_round(now) else { return };
        if !matches!(round, Round::Everything(_)) {
            desired.retain(|desired| self.standing.publishes(&desired.limit.name));
        }
        // Everything that a decision does not know yet has changed the claims, and leads to another.
        let config = matches!(round, Round::Everything(_) | Round::Review).then(|| self.standing.begin(now));
        let names = desired.iter().map(|desired| desired.limit.name).collect();
        let (known, announce) = (self.freezes.known(), self.must_announce);
        let (connection, round_known) = (connection.clone(), known.clone());
        let task: InFlight<_> = Box::pin(async move {
            let options = PublishOptions { plan: None, known: &round_known, announce };
            match (round, config) {
                (Round::FreezeAhead(_), _) => {
                    let frozen = freeze_ahead(&connection, &desired).await?;
                    Ok(RoundOutcome::Published(PublishOutcome { changed: !frozen.is_empty(), frozen }))
                }
                (Round::Review, Some(config)) => {
                    let (plan, is_due) = review(&connection, &config).await?;
                    Ok(RoundOutcome::Reviewed(plan, is_due))
                }
                (_, Some(config)) => claim_and_publish(&connection, &config, desired, options).await,
                (_, None) => publish(&connection, &desired, options).await.map(RoundOutcome::Published),
            }
        });
        self.running = Some(Running { round, names, known, task });
    }

    /// Waits until the round in flight has ended. `None` at once if there is none.
    pub(in crate::refill) async fn ended(&mut self) -> Option<EndedRound> {
        let result = (&mut self.running.as_mut()?.task).await;
        let running = self.running.take()?;
        Some(match result {
            Ok(outcome) => self.succeeded(&running, outcome),
            Err(error) => self.failed(running.round, &error),
        })
    }

    /// Records the freezes of a round, and finds the limits whose change it made.
    fn succeeded(&mut self, running: &Running, outcome: RoundOutcome) -> EndedRound {
        self.failed = None;
        let Running { round, names, known, .. } = running;
        let PublishOutcome { frozen, .. } = match outcome {
            RoundOutcome::Reviewed(plan, is_due) => {
                if is_due {
                    self.pending = self.pending.or(Some(AppliesFrom::Boundary));
                } else {
                    self.standing.decided(plan);
                }
                return EndedRound { published: false, changed: BTreeSet::new() };
            }
            RoundOutcome::Claimed(plan, outcome) => {
                self.standing.decided(plan);
                outcome
            }
            RoundOutcome::Published(outcome) => outcome,
        };
        self.must_announce = false;
        let applies = match *round {
            Round::Everything(applies) | Round::AfterFreeze(applies) => Some(applies),
            Round::Boundary => Some(AppliesFrom::Boundary),
            Round::FreezeAhead(_) | Round::Review => None,
        };
        let made = known.keys().filter(|shard| names.contains(&shard.0) && !frozen.contains_key(shard));
        let changed = made.map(|(name, _)| *name).collect();
        let is_of_round = |name: &LimitName| matches!(round, Round::Everything(_)) || names.contains(name);
        self.freezes.retain(|shard| frozen.contains_key(shard) || !is_of_round(&shard.0));
        self.freezes.record(frozen, known, applies);
        EndedRound { published: true, changed }
    }

    /// Plans the round again.
    fn failed(&mut self, round: Round, error: &RedisError) -> EndedRound {
        if self.failure_log.should_log() {
            tracing::warn!("publishing failed ({error}); trying again");
        }
        (self.failed, self.must_announce) = (Some(Moment::now()), true);
        match round {
            // A newer config may be pending already.
            Round::Everything(applies) => self.pending = self.pending.or(Some(applies)),
            Round::Boundary => self.check_boundary(),
            Round::FreezeAhead(at) => self.next_freeze = self.next_freeze.or(Some(at)),
            // The freezes are still due.
            Round::AfterFreeze(_) => {}
            Round::Review => self.standing.forget(),
        }
        EndedRound { published: false, changed: BTreeSet::new() }
    }
}
