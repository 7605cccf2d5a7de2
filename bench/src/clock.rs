//! The one place that reads this machine's clock.

use std::time::{Duration, Instant};

/// Time since it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

// === impl Stopwatch ===

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "the one place")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// ns: at most 584 years.
    pub(crate) fn nanos(self) -> u64 {
        self.elapsed().as_nanos() as u64
    }
}
