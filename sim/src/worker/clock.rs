//! The clock of a worker.

use topup::machine::Micros;

/// A clock that is a little off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Its reading when the run begins.
    pub(super) zero: u64,
    /// Parts per million that it is fast.
    pub(super) fast: i64,
}

// === impl Clock ===

impl Clock {
    /// Its reading at an instant of the run.
    pub(crate) const fn at(self, run: u64) -> Micros {
        let parts = (run as i128) * (1_000_000 + self.fast as i128) / 1_000_000;
        self.zero + parts as u64
    }

    /// The first instant of the run at which it shows `local`.
    pub(crate) const fn run(self, local: Micros) -> u64 {
        let parts = local.saturating_sub(self.zero) as i128;
        let per = 1_000_000 + self.fast as i128;
        ((parts * 1_000_000 + per - 1) / per) as u64
    }
}
