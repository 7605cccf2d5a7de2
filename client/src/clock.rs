//! The one place that reads this machine's clock.

use std::time::{Duration, Instant};

/// A steady clock, read in µs since it was made. It measures durations only: what Redis promised is a duration, and no
/// instant of another machine ever enters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

/// An instant of a [`Clock`].
pub(crate) type Micros = u64;

// === impl Clock ===

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the one place")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Micros {
        // µs of a process' life: 2^64 of them are half a million years.
        self.0.elapsed().as_micros() as Micros
    }
}

/// A duration of whole µs.
pub(crate) const fn micros(duration: Duration) -> Micros {
    duration.as_micros() as Micros
}

/// What of a duration a bucket is trusted for: a clock that runs one part in 64 slow is still right.
pub(crate) const fn cautious(duration: Micros) -> Micros {
    duration - duration / 64
}
