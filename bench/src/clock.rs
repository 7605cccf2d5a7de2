//! The one place that reads this machine's clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

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

/// CPU time of this process.
pub(crate) fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    // Counted from the start of the process: never negative.
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec.cast_unsigned() as u32)
}

/// ms since 1970.
#[allow(clippy::disallowed_methods, reason = "the one place")]
pub(crate) fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
