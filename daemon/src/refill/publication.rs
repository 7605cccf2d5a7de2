//! When to publish: at the start, after a reload, at a boundary of a schedule, and when Redis has forgotten.
//!
//! A change of a token bucket's capacity or rate takes two rounds. The first announces it; the second makes it, once all
//! workers know, which is [`FREEZE`] later. Between the rounds everything else goes on. What a schedule will change is
//! known, so the first round is [`AHEAD`] of its boundary and the second at it.
//!
//! Terms that give less apply from their boundary on, also when no daemon saw it. Terms that give more apply from when they
//! are published: what was in force until then was less, and nobody is owed more.

use std::{collections::BTreeSet, sync::Arc};

use redis::RedisResult;
use topup_wire::{connection::Connection, limit::LimitName, scripts::FREEZE};

use super::{
    freezes::{Freezes, Since},
    patience::{InFlight, LONGEST_TICK, NowAndThen},
};
use crate::{
    clock::Moment,
    config::Config,
    publish::{Announced, Outcome, Wanted, freeze_ahead, publish},
    wanted::{has_calendar, may_change, next_boundary, next_change, wanted},
};

/// A change by schedule is announced so many µs before its boundary: the freeze, the longest turn of the loop, and time for
/// a busy machine. Less than a second: boundaries are whole seconds, and one between would publish the terms of now again.
const AHEAD: u64 = FREEZE.as_micros() as u64 + 200_000;

/// What is still to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// Nothing.
    Nothing,
    /// All, from the instants that schedules name: nobody was there to apply them.
    Scheduled,
    /// All, from now.
    Now,
}

/// One round of publishing.
#[derive(Debug)]
enum Round {
    /// Everything there is.
    All(Pending),
    /// What has a schedule or is a quota, at a boundary.
    Crossing,
    /// Changes that were announced.
    Announced(Since),
    /// Announces what the boundary at this instant changes.
    Ahead(u64),
}

/// A round under way.
struct Running {
    round: Round,
    /// The limits it is about.
    names: BTreeSet<LimitName>,
    /// The changes that workers had been told of when it began.
    told: Announced,
}

/// A config on its way to Redis.
pub(super) struct Publication {
    config: Arc<Config>,
    pending: Pending,
    /// When a schedule changes something next, in µs of Redis `TIME`.
    boundary: Option<u64>,
    /// The same, where that is a change to be announced and is not yet.
    change: Option<u64>,
    freezes: Freezes,
    running: Option<(Running, InFlight<RedisResult<Outcome>>)>,
    /// Workers may not have been told of all that is published.
    untold: bool,
    failed: Option<Moment>,
    failures: NowAndThen,
}

/// What a round came to.
pub(super) struct Ended {
    pub(super) succeeded: bool,
    /// Limits whose terms have changed: their buckets at rest are still under those before.
    pub(super) changed: BTreeSet<LimitName>,
}

// === impl Publication ===

impl Publication {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            pending: Pending::Scheduled,
            boundary: None,
            change: None,
            freezes: Freezes::default(),
            running: None,
            // A daemon before this one may have ended before it had told them.
            untold: true,
            failed: None,
            failures: NowAndThen::default(),
        }
    }

    /// Publishes another config, from now.
    pub(super) fn replace(&mut self, config: Arc<Config>) {
        (self.config, self.pending, self.failed) = (config, Pending::Now, None);
    }

    /// Publishes everything again, as at the start.
    pub(super) fn again(&mut self) {
        // A change that failed because Redis was away is no reason to wait now that it is back.
        (self.pending, self.failed) = (Pending::Scheduled, None);
    }

    /// Looks with the next tick whether a schedule has changed something.
    pub(super) fn look(&mut self) {
        self.boundary = Some(0);
    }

    /// Whether Redis does not say yet what it is to say.
    pub(super) fn is_under_way(&self) -> bool {
        self.running.is_some() || self.pending != Pending::Nothing
    }

    /// Whether a boundary is being crossed: what is refilled meanwhile would get the rate before it for time behind it.
    pub(super) fn is_crossing(&self) -> bool {
        matches!(self.running, Some((Running { round: Round::Crossing, .. }, _)))
    }

    /// Begins to publish what there is to publish at `now`, in µs of Redis `TIME`.
    pub(super) fn begin(&mut self, connection: &Connection, now: u64) {
        if self.running.is_some() || self.failed.is_some_and(|failed| failed.elapsed() < LONGEST_TICK) {
            return;
        }
        let Some((round, limits)) = self.next_round(now) else { return };
        let names = limits.iter().map(|wanted| wanted.limit.name).collect();
        let (told, tell) = (self.freezes.ripe(), self.untold);
        let running = Running { round, names, told: told.clone() };
        let connection = connection.clone();
        let work: InFlight<_> = match running.round {
            Round::Ahead(_) => Box::pin(async move {
                let announced = freeze_ahead(&connection, &limits).await?;
                Ok(Outcome { changed: !announced.is_empty(), announced })
            }),
            Round::All(_) => Box::pin(async move { publish(&connection, &limits, true, &told, tell).await }),
            Round::Crossing | Round::Announced(_) => {
                Box::pin(async move { publish(&connection, &limits, false, &told, tell).await })
            }
        };
        self.running = Some((running, work));
    }

    /// The round to begin at `now`, and what it publishes.
    fn next_round(&mut self, now: u64) -> Option<(Round, Vec<Wanted>)> {
        let pending = std::mem::replace(&mut self.pending, Pending::Nothing);
        let crossed = self.boundary.is_some_and(|boundary| boundary <= now);
        if pending != Pending::Nothing || crossed {
            self.boundary = next_boundary(&self.config, now);
            self.change = next_change(&self.config, now);
        }
        let from_now = |mut limits: Vec<Wanted>| {
            limits.iter_mut().for_each(|wanted| wanted.at = None);
            limits
        };
        match pending {
            Pending::Scheduled => return Some((Round::All(pending), wanted(&self.config, now, |_| true))),
            Pending::Now => {
                return Some((Round::All(pending), from_now(wanted(&self.config, now, |_| true))));
            }
            Pending::Nothing if crossed => {
                return Some((Round::Crossing, wanted(&self.config, now, has_calendar)));
            }
            Pending::Nothing => {}
        }
        let those = |names: BTreeSet<LimitName>| {
            let mut limits = wanted(&self.config, now, |_| true);
            limits.retain(|wanted| names.contains(&wanted.limit.name));
            limits
        };
        match self.freezes.due() {
            [from_boundary, _] if !from_boundary.is_empty() => {
                Some((Round::Announced(Since::Boundary), those(from_boundary)))
            }
            [_, due] if !due.is_empty() => Some((Round::Announced(Since::Now), from_now(those(due)))),
            _ => {
                let at = self.change.filter(|at| at.saturating_sub(AHEAD) <= now)?;
                self.change = None;
                let changes = |limit: &_| may_change(limit) && limit.in_force(now).until == Some(at);
                Some((Round::Ahead(at), wanted(&self.config, at, changes)))
            }
        }
    }

    /// What a round came to, when it ends; never ready while there is none.
    pub(super) async fn ended(&mut self) -> Option<Ended> {
        let result = (&mut self.running.as_mut()?.1).await;
        let (running, _) = self.running.take()?;
        match result {
            Ok(outcome) => {
                (self.failed, self.untold) = (None, false);
                Some(Ended { succeeded: true, changed: self.take_note(running, outcome) })
            }
            Err(error) => {
                if self.failures.is_news() {
                    tracing::warn!("publishing was cut short ({error}); doing it again");
                }
                (self.failed, self.untold) = (Some(Moment::now()), true);
                match running.round {
                    Round::All(pending) if self.pending == Pending::Nothing => self.pending = pending,
                    Round::Crossing => self.look(),
                    Round::Ahead(at) => self.change = self.change.or(Some(at)),
                    Round::All(_) | Round::Announced(_) => {}
                }
                Some(Ended { succeeded: false, changed: BTreeSet::new() })
            }
        }
    }

    /// Takes note of what was announced: the limits whose changes were made.
    fn take_note(&mut self, running: Running, outcome: Outcome) -> BTreeSet<LimitName> {
        let Running { round, names, told } = running;
        let since = match round {
            Round::All(Pending::Now) => Since::Now,
            Round::All(_) | Round::Crossing => Since::Boundary,
            Round::Announced(since) => since,
            Round::Ahead(_) => Since::Ahead,
        };
        let made =
            told.keys().filter(|place| names.contains(&place.0) && !outcome.announced.contains_key(*place));
        let changed = made.map(|(name, _)| *name).collect();
        let all = matches!(round, Round::All(_));
        self.freezes
            .retain(|place| outcome.announced.contains_key(place) || !all && !names.contains(&place.0));
        self.freezes.told(outcome.announced, &told, since);
        changed
    }
}
