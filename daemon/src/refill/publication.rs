//! When to publish: at the start, after a reload, at a boundary of a schedule, and when Redis has lost the records.
//!
//! A change of a token bucket's capacity or rate takes two rounds. The first freezes it and tells workers. The second
//! makes it once all workers know, which is [`FREEZE`] later. Between the two, all other work goes on. A schedule is
//! known in advance: its first round comes [`AHEAD`] of the boundary, and the second at the boundary.
//!
//! Lower terms apply from their boundary on, even if no daemon ran then. Higher terms apply from the instant at which
//! they are published: until then the old terms were in force.

use std::{collections::BTreeSet, sync::Arc};

use redis::{RedisError, RedisResult};
use topup_wire::{
    claims::{Fingerprint, Owner},
    connection::Connection,
    limit::{Limit, LimitName},
    reply::Beat,
    scripts::FREEZE,
};

use super::{
    freezes::{AppliesFrom, Freezes},
    in_flight::InFlight,
    log_throttle::LogThrottle,
    standing::Standing,
    timeouts::RETRY_PAUSE,
};
use crate::{
    clock::Moment,
    config::{Config, LimitConfig},
    publish::{
        DesiredLimit, FrozenShards, LoadedConfig, Note, Plan, PublishOptions, PublishOutcome, claim,
        desired_limits, freeze_ahead, has_calendar, needs_freeze, next_boundary, next_freeze, publish,
        release, review,
    },
};

/// The time in µs from the freeze of a scheduled change to its boundary. It covers [`FREEZE`], a turn of the loop, and
/// a busy machine. It is below a second: boundaries are whole seconds, and a boundary between freeze and change would
/// publish the old terms again.
const AHEAD: u64 = FREEZE.as_micros() as u64 + 200_000;

/// One round of publishing.
#[derive(Clone, Copy, Debug)]
enum Round {
    /// All limits; those that the config has dropped are removed.
    Everything(AppliesFrom),
    /// The limits with a schedule or quota, at a boundary.
    Boundary,
    /// The limits whose frozen change is due.
    AfterFreeze(AppliesFrom),
    /// Freezes the limits that change at this boundary, in µs of Redis `TIME`.
    FreezeAhead(u64),
    /// Decides anew on the limits: claims or live daemons have changed.
    Review,
}

/// The result of a round.
enum RoundOutcome {
    Published(PublishOutcome),
    /// Limits were claimed before they were published.
    Claimed(Plan, PublishOutcome),
    /// A decision, and whether it asks for publishing.
    Reviewed(Plan, bool),
}

/// A round in flight.
struct Running {
    round: Round,
    /// The limits of the round.
    names: BTreeSet<LimitName>,
    /// The freezes that all workers knew of when the round began.
    known: FrozenShards,
    task: InFlight<RedisResult<RoundOutcome>>,
}

/// A round that has ended.
pub(super) struct EndedRound {
    /// Whether limits were published.
    pub(super) published: bool,
    /// Limits whose terms have changed. Their buckets at rest still have the old ones.
    pub(super) changed: BTreeSet<LimitName>,
}

/// The config and its way to Redis.
pub(super) struct Publication {
    config: Arc<Config>,
    /// Whether there is a config to publish.
    publishes: bool,
    standing: Standing,
    /// A publication of everything that is to begin.
    pending: Option<AppliesFrom>,
    /// The next boundary of any schedule or quota, in µs of Redis `TIME`.
    next_boundary: Option<u64>,
    /// The next boundary that needs a freeze and has none yet, in µs of Redis `TIME`.
    next_freeze: Option<u64>,
    freezes: Freezes,
    running: Option<Running>,
    /// Whether the next round tells workers even if it changes nothing: a round before it may have failed to.
    must_announce: bool,
    failed: Option<Moment>,
    failure_log: LogThrottle,
}

// === impl Publication ===

impl Publication {
    pub(super) fn new(config: Arc<Config>, mut standing: Standing, publishes: bool) -> Self {
        // Without a config, it decides nothing: its limits stay as they are.
        if publishes {
            standing.load(&config);
        }
        Self {
            config,
            publishes,
            standing,
            // No daemon may have run at the last boundary.
            pending: publishes.then_some(AppliesFrom::Boundary),
            next_boundary: None,
            next_freeze: None,
            freezes: Freezes::default(),
            running: None,
            // An earlier daemon may have ended between a change and its announcement.
            must_announce: true,
            failed: None,
            failure_log: LogThrottle::default(),
        }
    }

    /// Publishes another config, from now.
    pub(super) fn replace(&mut self, config: Arc<Config>) {
        self.standing.load(&config);
        (self.config, self.publishes) = (config, true);
        (self.pending, self.failed) = (Some(AppliesFrom::Now), None);
    }

    /// Publishes everything again, as at the start, and at once: Redis is back.
    pub(super) fn publish_again(&mut self) {
        (self.pending, self.failed) = (self.publishes.then_some(AppliesFrom::Boundary), None);
    }

    /// Whether there is a config to publish.
    pub(super) const fn publishes(&self) -> bool {
        self.publishes
    }

    /// Gives up the round in flight. The next one publishes everything again.
    pub(super) fn halt(&mut self) {
        self.running = None;
        self.publish_again();
    }

    /// Learns of live daemons and of claims to limits.
    pub(super) fn heard(&mut self, beat: &Beat) {
        self.standing.heard(beat);
    }

    /// The name and the hash of the config.
    pub(super) fn identity(&self) -> (Owner, Fingerprint) {
        self.standing.identity()
    }

    /// Findings on this config's limits.
    pub(super) fn notes(&self) -> impl Iterator<Item = &Note> {
        self.standing.notes()
    }

    /// Treats the next turn as a boundary: the clock of Redis was set.
    pub(super) fn check_boundary(&mut self) {
        self.next_boundary = Some(0);
    }

    /// Whether a round is in flight, or one of everything is to begin.
    pub(super) fn is_under_way(&self) -> bool {
        self.running.is_some() || self.pending.is_some()
    }

    /// The limits as they should be published at `now`. None while any of them is about to change.
    pub(super) fn settled(&self, now: u64) -> Vec<Limit> {
        let is_near = self.next_boundary.is_some_and(|boundary| boundary <= now + 2 * AHEAD);
        if self.is_under_way() || is_near || !self.freezes.is_empty() {
            return Vec::new();
        }
        let desired = desired_limits(&self.config, now, |_| true).into_iter().map(|desired| desired.limit);
        desired.filter(|limit| self.standing.publishes(&limit.name)).collect()
    }

    /// Whether a round at a boundary is in flight. A refill meanwhile would credit the time after it at the old rate.
    pub(super) fn is_at_boundary(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.round, Round::Boundary))
    }

    /// Begins the round that is due at `now`, in µs of Redis `TIME`, unless one is in flight.
    pub(super) fn begin(&mut self, connection: &Connection, now: u64) {
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

    /// The round that is due at `now`, and its limits.
    fn next_round(&mut self, now: u64) -> Option<(Round, Vec<DesiredLimit>)> {
        let pending = self.pending.take();
        let crossed = self.next_boundary.is_some_and(|boundary| boundary <= now);
        if pending.is_some() || crossed {
            self.next_boundary = next_boundary(&self.config, now);
            self.next_freeze = next_freeze(&self.config, now);
        }
        if let Some(applies) = pending {
            return Some((Round::Everything(applies), self.desired(applies, now, |_| true)));
        }
        if crossed {
            return Some((Round::Boundary, self.desired(AppliesFrom::Boundary, now, has_calendar)));
        }
        if let Some(round) = self.round_after_freeze(now).or_else(|| self.round_ahead(now)) {
            return Some(round);
        }
        self.standing.is_stale().then(|| (Round::Review, Vec::new()))
    }

    /// The limits at `now` that `which` selects.
    fn desired(
        &self,
        applies: AppliesFrom,
        now: u64,
        which: impl Fn(&LimitConfig) -> bool,
    ) -> Vec<DesiredLimit> {
        let mut desired = desired_limits(&self.config, now, which);
        if applies == AppliesFrom::Now {
            desired.iter_mut().for_each(|desired| desired.since = None);
        }
        desired
    }

    /// The limits whose freeze all workers know of. Changes of a boundary come first.
    fn round_after_freeze(&self, now: u64) -> Option<(Round, Vec<DesiredLimit>)> {
        let both = [AppliesFrom::Boundary, AppliesFrom::Now];
        let due = both.map(|applies| (applies, self.freezes.due(applies)));
        let (applies, names) = due.into_iter().find(|(_, names)| !names.is_empty())?;
        let mut desired = self.desired(applies, now, |_| true);
        desired.retain(|desired| names.contains(&desired.limit.name));
        Some((Round::AfterFreeze(applies), desired))
    }

    /// The limits to freeze for the next boundary, once it is [`AHEAD`] or nearer.
    fn round_ahead(&mut self, now: u64) -> Option<(Round, Vec<DesiredLimit>)> {
        let at = self.next_freeze.filter(|at| at.saturating_sub(AHEAD) <= now)?;
        self.next_freeze = None;
        let changes = |limit: &_| needs_freeze(limit) && limit.effective_at(now).until == Some(at);
        Some((Round::FreezeAhead(at), self.desired(AppliesFrom::Boundary, at, changes)))
    }

    /// Waits until the round in flight has ended. `None` at once if there is none.
    pub(super) async fn ended(&mut self) -> Option<EndedRound> {
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

/// Claims the limits of `config`, publishes those that it holds, and removes those that nobody has any more.
async fn claim_and_publish(
    connection: &Connection,
    config: &LoadedConfig,
    mut desired: Vec<DesiredLimit>,
    options: PublishOptions<'_>,
) -> RedisResult<RoundOutcome> {
    let plan = claim(connection, config).await?;
    desired.retain(|desired| plan.publish.contains(&desired.limit.name.live()));
    let outcome = publish(connection, &desired, PublishOptions { plan: Some(&plan), ..options }).await?;
    if !plan.remove.is_empty() {
        release(connection, config, &plan).await?;
    }
    Ok(RoundOutcome::Claimed(plan, outcome))
}
