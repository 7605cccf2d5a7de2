//! The one place that reads this machine's clock.

use rustix::time::{ClockId, clock_gettime};

/// µs of this machine's monotonic clock: its zero is the same for every process, so the instants that different
/// workers report can be compared. `std::time::Instant` reads the same clock, but keeps the number to itself.
pub(crate) type Micros = u64;

/// One second.
pub(crate) const SECOND: Micros = 1_000_000;

/// Now.
pub(crate) fn now() -> Micros {
    let now = clock_gettime(ClockId::Monotonic);
    // Counted from the start of the machine: never negative.
    now.tv_sec.cast_unsigned() * SECOND + now.tv_nsec.cast_unsigned() / 1_000
}

/// For people.
pub(crate) fn seconds(micros: Micros) -> f64 {
    micros as f64 / SECOND as f64
}
