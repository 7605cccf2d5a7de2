//! The one place that reads this machine's clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// µs of this machine's monotonic clock: its zero is the same for every process, so instants that different workers
/// report can be compared.
pub type Micros = u64;

/// One second.
pub const SECOND: Micros = 1_000_000;

/// Now.
pub fn now() -> Micros {
    read(ClockId::Monotonic)
}

/// What a worker believes the time of day to be, in µs since the Unix epoch: rivals that trust it are fed with it.
pub fn time_of_day() -> Micros {
    read(ClockId::Realtime)
}

/// Sleeps until `at`; at once when it has passed.
pub async fn sleep_until(at: Micros) {
    let now = now();
    if at > now {
        tokio::time::sleep(Duration::from_micros(at - now)).await;
    }
}

/// A duration in whole µs.
pub const fn micros(duration: Duration) -> Micros {
    duration.as_micros() as Micros
}

fn read(clock: ClockId) -> Micros {
    let now = clock_gettime(clock);
    // Counted from the start of the machine, or from 1970: never negative.
    now.tv_sec.cast_unsigned() * SECOND + now.tv_nsec.cast_unsigned() / 1_000
}
