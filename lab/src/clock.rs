//! The clocks of this machine.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// µs of the monotonic clock. Its zero is the same for all processes of a machine, so their instants can be compared.
pub type Micros = u64;

/// One second.
pub const SECOND: Micros = 1_000_000;

/// A time that began at [`Stopwatch::start`].
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

/// The present instant.
pub fn now() -> Micros {
    micros(read(ClockId::Monotonic))
}

/// The time of day, in µs since the Unix epoch.
pub fn time_of_day() -> Micros {
    micros(read(ClockId::Realtime))
}

/// CPU time that this process has used.
pub fn cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Sleeps until `at`; returns at once when `at` has passed.
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

/// A time of the monotonic clock in seconds.
pub fn seconds(micros: Micros) -> f64 {
    micros as f64 / SECOND as f64
}

// === impl Stopwatch ===

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(read(ClockId::Monotonic))
    }

    /// Time since the start.
    pub fn elapsed(self) -> Duration {
        read(ClockId::Monotonic).saturating_sub(self.0)
    }

    /// ns since the start, at most 584 years.
    pub fn nanos(self) -> u64 {
        self.elapsed().as_nanos() as u64
    }
}

fn read(clock: ClockId) -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    // Counted from the start of the machine or process, or from 1970: never negative.
    Duration::new(tv_sec.cast_unsigned(), tv_nsec.cast_unsigned() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (watch, before) = (Stopwatch::start(), now());
        while now() == before {}
        assert!(watch.elapsed() >= Duration::from_nanos(1) && watch.nanos() > 0);
        assert!(cpu_time() > Duration::ZERO && time_of_day() > 1_600_000_000 * SECOND);
    }
}
