//! The checked limit of a test, and what is published of it at an instant.

use std::{fmt::Display, time::Duration};

use topup_wire::limit::{
    Algorithm, Capacity, Holds, Lease, Limit as Published, LimitName, OnChange, OnOutage, Parts, Period,
    PermitTtl, Rate, Rollout, Schedule, ScheduledChange, Supply, Terms, Windows,
};

/// The refill period of limits without catch-up, unless set: as that of the daemon.
const TICK: Duration = Duration::from_millis(100);

/// A limit whose values are right.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) algorithm: Algorithm,
    pub(super) capacity: Capacity,
    pub(super) supply: Filling,
    pub(super) keyed: bool,
    pub(super) catch_up: bool,
    pub(super) tick: Duration,
    pub(super) on_change: OnChange,
    pub(super) lease: Option<Lease>,
    pub(super) rollout: Rollout,
    pub(super) on_outage: Option<OnOutage>,
    pub(super) holds: Holds,
    pub(super) parts: Parts,
    /// Changes by the time from the start.
    pub(super) schedule: Vec<(u64, Capacity, Rate)>,
}

/// The source of a bucket's tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filling {
    Rate(Rate),
    Windows(Windows),
    /// Every so many µs.
    Quota(u64),
    Permits(PermitTtl),
}

// === impl Spec ===

impl Spec {
    pub(super) fn new(algorithm: Algorithm, capacity: u64, supply: Filling) -> Result<Self, String> {
        Ok(Self {
            algorithm,
            capacity: Capacity::new(capacity).map_err(text)?,
            supply,
            keyed: false,
            catch_up: true,
            tick: TICK,
            on_change: OnChange::default(),
            lease: None,
            rollout: Rollout::default(),
            on_outage: None,
            holds: Holds::default(),
            parts: Parts::default(),
            schedule: Vec::new(),
        })
    }

    pub(super) fn check_rated(&self, what: &str) -> Result<(), String> {
        match (self.algorithm, self.supply) {
            (Algorithm::TokenBucket, Filling::Rate(_)) => Ok(()),
            _ => Err(format!("only a token bucket with a rate has {what}")),
        }
    }

    /// The tick of the daemon that this limit waits for, if it does.
    pub(super) fn tick(&self) -> Option<u64> {
        (!self.catch_up).then_some(self.tick.as_micros() as u64)
    }

    /// The limit as it is published at `now` by a Redis that began at `began`.
    pub(super) fn at(&self, name: LimitName, began: u64, now: u64) -> Published {
        let past = self.schedule.iter().take_while(|(at, ..)| began.saturating_add(*at) <= now).last();
        let (capacity, supply) = match (past, self.supply) {
            (Some((_, capacity, rate)), _) => (*capacity, Supply::Rate(*rate)),
            (None, Filling::Rate(rate)) => (self.capacity, Supply::Rate(rate)),
            (None, Filling::Windows(windows)) => (self.capacity, Supply::Windows(windows)),
            (None, Filling::Permits(ttl)) => (self.capacity, Supply::Permits(ttl)),
            (None, Filling::Quota(every)) => {
                let since = now - now.saturating_sub(began) % every;
                (self.capacity, Supply::Period(Period { since, next: since.saturating_add(every) }))
            }
        };
        let ahead = self.schedule.iter().map(|(at, capacity, rate)| ScheduledChange {
            at: began.saturating_add(*at),
            capacity: *capacity,
            rate: *rate,
        });
        Published {
            keyed: self.keyed,
            catch_up: self.catch_up,
            on_change: self.on_change,
            tick: self.tick,
            lease: self.lease,
            rollout: self.rollout,
            on_outage: self.on_outage,
            holds: self.holds,
            parts: self.parts.clone(),
            schedule: Schedule::new(ahead.filter(|change| change.at > now)),
            ..Published::plain(name, self.algorithm, Terms { capacity, supply })
        }
    }

    /// The next instant after `now` at which the limit is published anew.
    pub(super) fn boundary(&self, began: u64, now: u64) -> Option<u64> {
        if let Filling::Quota(every) = self.supply {
            let since = now - now.saturating_sub(began) % every;
            return Some(since.saturating_add(every));
        }
        self.schedule.iter().map(|(at, ..)| began.saturating_add(*at)).find(|at| *at > now)
    }
}

/// An error as text.
pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}
