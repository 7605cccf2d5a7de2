//! What a bucket keeps of its reservations. `reservation.rs` has their rules.

use topup_wire::bucket::Pace;

use super::{Micros, Terms};

/// A reservation that is refused is asked for again after this or later, in µs. Nor is trust in reserved tokens looked for sooner.
pub(super) const AGAIN: Micros = 10_000;

/// The reservations of one bucket: tokens that its first waiter has taken ahead of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reservations {
    /// Tokens; 0 for no reservation.
    pub(super) tokens: u64,
    /// They are good from then on.
    pub(super) from: Micros,
    /// They are good until then.
    pub(super) until: Micros,
    /// The terms under which they were taken: their number, capacity and rate.
    pub(super) terms: Option<(u64, u64, Pace)>,
    /// When a waiter was served last.
    pub(super) served_at: Micros,
    /// No further reservation before this.
    pub(super) again_at: Micros,
}

// === impl Reservations ===

impl Reservations {
    /// Whether they were taken under `terms`.
    pub(super) fn were_under(&self, terms: &Terms) -> bool {
        self.terms == Some((terms.id, terms.capacity, terms.pace))
    }

    /// Notes that a waiter was served at `now`.
    pub(super) const fn served(&mut self, now: Micros) {
        (self.served_at, self.again_at) = (now, 0);
    }
}
