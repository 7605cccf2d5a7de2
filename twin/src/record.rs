//! A limit's record as the scripts see it, and its changes.

mod credit;
mod migrate;
mod rest;

use topup_wire::{
    bucket::Pace,
    constants::MOST_EARLIER,
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

/// Terms before the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierTerms {
    /// The terms, and the effect on tokens of the change that ended them.
    pub terms: PreviousTerms,
    /// The instant of that change.
    pub ended: u64,
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
    /// The terms before these, the latest first.
    pub earlier: [Option<EarlierTerms>; MOST_EARLIER as usize],
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
            earlier: [None; MOST_EARLIER as usize],
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
            let Self { terms_id, since, anchor, anchored, previous, earlier, .. } = *self;
            return Self { terms_id, since, anchor, anchored, previous, earlier, ..fresh };
        }
        let (filled, on_change) = (self.last_filled(at), fresh.on_change);
        let before = PreviousTerms { capacity: self.capacity, pace: self.pace, filled, on_change };
        let (terms_id, earlier) = (self.terms_id + 1, self.earlier_then());
        let changed = Self { terms_id, previous: Some(before), earlier, ..fresh };
        let (anchor, anchored) = changed.migrate(before, self.anchor as i64, self.anchored);
        Self { anchor: anchor as u64, anchored, ..changed }
    }

    /// The terms before the previous ones, once these are the previous ones.
    pub(crate) fn earlier_then(&self) -> [Option<EarlierTerms>; MOST_EARLIER as usize] {
        let mut earlier = self.earlier;
        if let Some(terms) = self.previous {
            earlier.rotate_right(1);
            earlier[0] = Some(EarlierTerms { terms, ended: self.since });
        }
        earlier
    }

    /// Records as of all terms before these that are known, the earliest first. The first one tells no `since`.
    pub(crate) fn past(&self) -> Vec<Self> {
        let earlier = || self.earlier.iter().flatten();
        let terms: Vec<PreviousTerms> =
            self.previous.into_iter().chain(earlier().map(|one| one.terms)).collect();
        let began = earlier().map(|one| one.ended).chain([0]);
        let past = terms.iter().zip(began).enumerate().map(|(i, (before, since))| Self {
            capacity: before.capacity,
            pace: before.pace,
            filled: before.filled,
            on_change: before.on_change,
            since,
            terms_id: self.terms_id.saturating_sub(i as u64 + 1),
            previous: terms.get(i + 1).copied(),
            ..*self
        });
        let mut past: Vec<Self> = past.collect();
        past.reverse();
        past
    }

    /// The length of the one window of a limit that has one, and whether it is aligned.
    pub(crate) fn window(&self) -> Option<(u64, bool)> {
        self.windows.map(|windows| (windows.longest(), windows.aligned()))
    }
}
