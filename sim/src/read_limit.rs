//! The limit as a worker has read it.

use topup::machine::{ChangeAhead, Kind, LeaseTerms, Terms};
use topup_twin::Record;
use topup_wire::{limit::Capacity, scripts::key_at_rest_until};

use crate::{plan::Plan, server::Written};

/// The limit as a worker has read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimit {
    pub(crate) terms: Terms,
    pub(crate) capacity: Capacity,
    pub(crate) frozen: bool,
    pub(crate) absent_full_at: u64,
    pub(crate) epoch: u64,
}

// === impl ReadLimit ===

impl ReadLimit {
    pub(crate) fn new(record: &Record, frozen: bool, plan: &Plan, epoch: u64) -> Self {
        let lease = plan.lease.map(|(max, ttl)| LeaseTerms { max, ttl });
        let terms = Terms {
            id: record.terms_id,
            pace: record.pace,
            capacity: record.capacity,
            kind: Kind::TwoForms,
            foreseen: true,
            reserves: true,
            lease,
            change: record
                .schedule
                .first_at()
                .map(|at| ChangeAhead { at, full_by: record.schedule.full_by() }),
            earlier_until: earlier_until(record),
        };
        let grown = record.pace.instant(record.anchored, record.capacity.saturating_sub(record.anchor));
        let absent_full_at = if record.anchor >= record.capacity { 0 } else { grown };
        let capacity = Capacity::new(record.capacity).unwrap_or_else(|_| unreachable!("of a record"));
        Self { terms, capacity, frozen, absent_full_at, epoch }
    }

    /// The same, of a worker that knew the limit as `before` until the instant `now` of Redis.
    pub(crate) fn after(mut self, before: Option<&Self>, now: u64) -> Self {
        self.terms = self.terms.after(before.map(|before| &before.terms), now);
        self
    }

    pub(crate) const fn written(&self) -> Written {
        Written { capacity: self.capacity, terms: self.terms }
    }
}

/// The instant by which every bucket that is kept under earlier terms is full; 0 without any.
fn earlier_until(record: &Record) -> u64 {
    let earlier = record.earlier.iter().flatten().map(|earlier| (earlier.terms, earlier.ended));
    let all = record.previous.map(|previous| (previous, record.since)).into_iter().chain(earlier);
    all.map(|(terms, end)| key_at_rest_until(terms.pace, terms.capacity, end)).max().unwrap_or(0)
}
