//! The config and its way to Redis: what is pending, what is in flight, and what the engine asks of it.

use std::sync::Arc;

use topup_wire::{
    claims::{Fingerprint, Owner},
    limit::Limit,
    reply::Beat,
    scripts::FREEZE,
};

use super::round::{Round, Running};
use crate::{
    clock::Moment,
    config::Config,
    publish::{Note, desired_limits},
    refill::{
        freezes::{AppliesFrom, Freezes},
        log_throttle::LogThrottle,
        standing::Standing,
    },
};

/// The time in µs from the freeze of a scheduled change to its boundary. It covers [`FREEZE`], a turn of the loop, and
/// a busy machine. It is below a second: boundaries are whole seconds, and a boundary between freeze and change would
/// publish the old terms again.
pub(super) const AHEAD: u64 = FREEZE.as_micros() as u64 + 200_000;

/// The config and its way to Redis.
pub(in crate::refill) struct Publication {
    pub(super) config: Arc<Config>,
    /// Whether there is a config to publish.
    pub(super) publishes: bool,
    pub(super) standing: Standing,
    /// A publication of everything that is to begin.
    pub(super) pending: Option<AppliesFrom>,
    /// The next boundary of any schedule or quota, in µs of Redis `TIME`.
    pub(super) next_boundary: Option<u64>,
    /// The next boundary that needs a freeze and has none yet, in µs of Redis `TIME`.
    pub(super) next_freeze: Option<u64>,
    pub(super) freezes: Freezes,
    pub(super) running: Option<Running>,
    /// Whether the next round tells workers even if it changes nothing: a round before it may have failed to.
    pub(super) must_announce: bool,
    pub(super) failed: Option<Moment>,
    pub(super) failure_log: LogThrottle,
}

// === impl Publication ===

impl Publication {
    pub(in crate::refill) fn new(config: Arc<Config>, mut standing: Standing, publishes: bool) -> Self {
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
    pub(in crate::refill) fn replace(&mut self, config: Arc<Config>) {
        self.standing.load(&config);
        (self.config, self.publishes) = (config, true);
        (self.pending, self.failed) = (Some(AppliesFrom::Now), None);
    }

    /// Publishes everything again, as at the start, and at once: Redis is back.
    pub(in crate::refill) fn publish_again(&mut self) {
        (self.pending, self.failed) = (self.publishes.then_some(AppliesFrom::Boundary), None);
    }

    /// Whether there is a config to publish.
    pub(in crate::refill) const fn publishes(&self) -> bool {
        self.publishes
    }

    /// Gives up the round in flight. The next one publishes everything again.
    pub(in crate::refill) fn halt(&mut self) {
        self.running = None;
        self.publish_again();
    }

    /// Learns of live daemons and of claims to limits.
    pub(in crate::refill) fn heard(&mut self, beat: &Beat) {
        self.standing.heard(beat);
    }

    /// The name and the hash of the config.
    pub(in crate::refill) fn identity(&self) -> (Owner, Fingerprint) {
        self.standing.identity()
    }

    /// Findings on this config's limits.
    pub(in crate::refill) fn notes(&self) -> impl Iterator<Item = &Note> {
        self.standing.notes()
    }

    /// Treats the next turn as a boundary: the clock of Redis was set.
    pub(in crate::refill) fn check_boundary(&mut self) {
        self.next_boundary = Some(0);
    }

    /// Whether a round is in flight, or one of everything is to begin.
    pub(in crate::refill) fn is_under_way(&self) -> bool {
        self.running.is_some() || self.pending.is_some()
    }

    /// The limits as they should be published at `now`. None while any of them is about to change.
    pub(in crate::refill) fn settled(&self, now: u64) -> Vec<Limit> {
        let is_near = self.next_boundary.is_some_and(|boundary| boundary <= now + 2 * AHEAD);
        if self.is_under_way() || is_near || !self.freezes.is_empty() {
            return Vec::new();
        }
        let desired = desired_limits(&self.config, now, |_| true).into_iter().map(|desired| desired.limit);
        desired.filter(|limit| self.standing.publishes(&limit.name)).collect()
    }

    /// Whether a round at a boundary is in flight. A refill meanwhile would credit the time after it at the old rate.
    pub(in crate::refill) fn is_at_boundary(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.round, Round::Boundary))
    }
}
