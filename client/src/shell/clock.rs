//! The one place that reads this machine's clocks.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::machine::Micros;

/// The counter may drift from the system's clock by one part in so many.
const DRIFT: Micros = 128;
/// It may be read so many µs before or after that.
const STEP: Micros = 1_000;

/// A steady clock, read in µs since it was made. It measures durations only: what Redis promised is a duration, and no
/// instant of another machine ever enters.
///
/// Every take reads it, so it is the processor's own counter, where that is steady: 10 ns instead of 25. A counter that
/// does not keep step with the system's clock after all, as after a machine was stopped and moved, is read no more.
#[derive(Debug)]
pub(crate) struct Clock {
    counter: quanta::Clock,
    /// What the counter showed when it began.
    zero: u64,
    began: Instant,
    doubted: AtomicBool,
    /// When they were last compared, and by how much the counter was ahead of the system's clock.
    compared: AtomicU64,
    ahead: AtomicI64,
}

// === impl Clock ===

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the one place")]
    pub(crate) fn start() -> Self {
        let counter = quanta::Clock::new();
        let zero = counter.raw();
        Self {
            counter,
            zero,
            began: Instant::now(),
            doubted: AtomicBool::default(),
            compared: AtomicU64::default(),
            ahead: AtomicI64::default(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Micros {
        if self.doubted.load(Relaxed) { self.by_the_system() } else { self.by_the_counter() }
    }

    /// Compares the counter with the system's clock: to be done again and again.
    pub(crate) fn compare(&self) {
        let before = micros(self.began.elapsed());
        let counter = self.by_the_counter();
        let after = micros(self.began.elapsed());
        // What was interrupted compares nothing.
        if after - before < STEP {
            self.note(counter, after);
        }
    }

    /// Takes note of what both clocks show.
    fn note(&self, counter: Micros, system: Micros) {
        let ahead = counter as i64 - system as i64;
        let since = system.saturating_sub(self.compared.swap(system, Relaxed));
        if ahead.abs_diff(self.ahead.load(Relaxed)) > since / DRIFT + 2 * STEP {
            self.doubted.store(true, Relaxed);
        } else if !self.doubted.load(Relaxed) {
            self.ahead.store(ahead, Relaxed);
        }
    }

    fn by_the_counter(&self) -> Micros {
        self.counter.delta_as_nanos(self.zero, self.counter.raw()) / 1_000
    }

    #[cold]
    fn by_the_system(&self) -> Micros {
        // µs of a process' life: 2^64 of them are half a million years.
        micros(self.began.elapsed()).saturating_add_signed(self.ahead.load(Relaxed))
    }
}

/// A duration of whole µs.
pub(crate) const fn micros(duration: Duration) -> Micros {
    duration.as_micros() as Micros
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    #[test]
    fn a_counter_that_keeps_step_is_what_is_read() {
        let clock = Clock::start();
        clock.compare();
        for second in 1..100 {
            // A part in 200 fast.
            clock.note(second * (SECOND + SECOND / 200), second * SECOND);
        }
        assert!(!clock.doubted.load(Relaxed));
        let (earlier, later) = (clock.now(), clock.now());
        assert!(earlier <= later && later < SECOND);
    }

    #[test]
    fn one_that_jumps_or_stands_still_is_read_no_more_and_time_goes_on_from_there() {
        for counter in [5 * SECOND, 0, SECOND, u64::MAX / 2_000] {
            let clock = Clock::start();
            clock.note(SECOND + 10, SECOND);
            clock.note(counter, 2 * SECOND);
            assert!(clock.doubted.load(Relaxed), "{counter}");
            assert!((10..SECOND).contains(&clock.now()), "{counter}");
            clock.note(3 * SECOND, 3 * SECOND);
            assert!(clock.doubted.load(Relaxed), "for good");
        }
    }
}
