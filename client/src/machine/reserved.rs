//! What a bucket keeps of its reservations. `reservation.rs` has their rules.

use topup_wire::bucket::Pace;

use super::Micros;

/// A worker looks again after this, in µs: for room for a reservation, or for trust in reserved tokens.
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
    /// The terms under which they were taken, by [`Terms::identity`](super::Terms).
    pub(super) terms: Option<(u64, u64, Pace)>,
    /// When a waiter was served last.
    pub(super) served_at: Micros,
    /// No further reservation before this.
    pub(super) again_at: Micros,
}

// === impl Reservations ===

impl Reservations {
    /// Notes that a waiter was served at `now`.
    pub(super) const fn served(&mut self, now: Micros) {
        (self.served_at, self.again_at) = (now, 0);
    }
}
