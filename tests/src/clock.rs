//! The machine's steady clock, which all processes read alike.

use rustix::time::{ClockId, clock_gettime};

/// µs since the machine started: attempts of several worker processes are compared by it.
#[must_use]
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}
