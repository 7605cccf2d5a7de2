//! A limit's record as the scripts see it, and its changes.

mod credit;
mod migrate;
mod rest;

use topup_wire::{
    bucket::Pace,
    limit::{Limit, OnChange, Schedule, Supply, Windows},
};

/// The previous terms, and the effect of the last change on tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousTerms {
    /// Capacity before the change.
    pub capacity: u64,
    /// Pace before the change.
    pub pace: Pace,
    /// When a calendar quota was last filled before the change; 0 for a rate.
    pub filled: u64,
    /// The effect of the change on tokens.
    pub on_change: OnChange,
}

/// One shard's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Most tokens a bucket holds.
    pub capacity: u64,
    /// The rate.
    pub pace: Pace,
    /// Whether a settle credits the tokens owed.
    pub catch_up: bool,
    /// The refill period, in µs.
    pub tick: u64,
    /// The effect of the next change on tokens.
    pub on_change: OnChange,
    /// When a calendar quota was last filled; 0 for a rate.
    pub filled: u64,
    /// When a calendar quota is filled next; 0 for a rate.
    pub fills: u64,
    /// Counts the changes of capacity and pace, from the instant of publication on: buckets at rest say under which
    /// they were written.
    pub terms_id: u64,
    /// The instant from which these terms apply.
    pub since: u64,
    /// Tokens of an absent bucket at `anchored`.
    pub anchor: u64,
    /// The instant `anchor` speaks of.
    pub anchored: u64,
    /// The terms before the last change, if there was one.
    pub previous: Option<PreviousTerms>,
    /// Rules about windows, of a limit that has them.
    pub windows: Option<Windows>,
    /// The changes that a schedule makes next.
    pub schedule: Schedule,
}

// === impl Record ===

impl Record {
    /// The record of a limit published for the first time.
    pub fn new(limit: &Limit, now: u64) -> Self {
        let capacity = limit.terms.capacity.get();
        let (filled, fills) = match limit.terms.supply {
            Supply::Rate(_) | Supply::Windows(_) | Supply::Permits(_) => (0, 0),
            Supply::Period(period) => (period.since, period.next),
        };
        Self {
            capacity,
            pace: limit.terms.supply.pace(),
            catch_up: limit.catch_up,
            tick: limit.tick.as_micros() as u64,
            on_change: limit.on_change,
            filled,
            fills,
            terms_id: 1,
            since: now,
            anchor: capacity,
            anchored: now,
            previous: None,
            windows: if let Supply::Windows(windows) = limit.terms.supply { Some(windows) } else { None },
            schedule: limit.schedule,
        }
    }

    /// `publish.lua` over a record without buckets to be migrated. Returns the record after it, as of `at`.
    #[must_use]
    pub fn changed(&self, limit: &Limit, at: u64) -> Self {
        let fresh = Self::new(limit, at);
        if fresh.windows.is_some() {
            let since = if fresh.windows == self.windows { self.since } else { at };
            let Self { terms_id, anchor, anchored, .. } = *self;
            return Self { terms_id, since, anchor, anchored, ..fresh };
        }
        if (fresh.capacity, fresh.pace) == (self.capacity, self.pace) {
            let Self { terms_id, since, anchor, anchored, previous, .. } = *self;
            return Self { terms_id, since, anchor, anchored, previous, ..fresh };
        }
        let (filled, on_change) = (self.last_filled(at), fresh.on_change);
        let before = PreviousTerms { capacity: self.capacity, pace: self.pace, filled, on_change };
        let changed = Self { terms_id: self.terms_id + 1, previous: Some(before), ..fresh };
        let (anchor, anchored) = changed.migrate(before, self.anchor as i64, self.anchored);
        Self { anchor: anchor as u64, anchored, ..changed }
    }

    /// The length of the one window of a limit that has one, and whether it is aligned.
    pub(crate) fn window(&self) -> Option<(u64, bool)> {
        self.windows.map(|windows| (windows.longest(), windows.aligned()))
    }
}
