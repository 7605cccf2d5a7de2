//! A limit of a test, and its published form at an instant.

use topup_wire::limit::{Limit, Period, Schedule, ScheduledChange, Supply, Terms};

/// A limit whose instants are in µs from the start of the test.
#[derive(Clone, Debug)]
pub(super) struct Spec(pub(super) Limit);

// === impl Spec ===

impl Spec {
    /// The tick of the daemon that this limit waits for, if it does.
    pub(super) fn tick(&self) -> Option<u64> {
        (!self.0.catch_up).then_some(self.0.tick.as_micros() as u64)
    }

    /// The limit as it is published at `now` by a Redis that began at `began`.
    pub(super) fn at(&self, began: u64, now: u64) -> Limit {
        let mut limit = self.0.clone();
        let (past, ahead): (Vec<_>, Vec<_>) = limit
            .schedule
            .changes()
            .map(|change| ScheduledChange { at: began.saturating_add(change.at), ..change })
            .partition(|change| change.at <= now);
        if let Some(ScheduledChange { capacity, rate, .. }) = past.last() {
            limit.terms = Terms { capacity: *capacity, supply: Supply::Rate(*rate) };
        }
        limit.schedule = Schedule::new(ahead);
        if let Supply::Period(period) = &mut limit.terms.supply {
            let since = now - now.saturating_sub(began) % period.next;
            *period = Period { since, next: since.saturating_add(period.next) };
        }
        limit
    }

    /// The next instant after `now` at which the limit is published anew.
    pub(super) fn boundary(&self, began: u64, now: u64) -> Option<u64> {
        let limit = self.at(began, now);
        match limit.terms.supply {
            Supply::Period(period) => Some(period.next),
            _ => limit.schedule.first_at(),
        }
    }
}
