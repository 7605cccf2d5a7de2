//! The worker's clock: the only place that reads the clocks of the machine.

use std::{
    sync::atomic::{
        AtomicBool, AtomicI64, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
    time::{Duration, Instant},
};

#[cfg(feature = "testing")]
use super::manual_clock::ManualClock;
use crate::machine::Micros;

/// The counter may drift from the system's clock by one part in this many.
const DRIFT: Micros = 128;
/// The two clocks may be read this many µs apart.
const STEP: Micros = 1_000;

/// A steady clock: µs since its start. It measures durations only; instants come from Redis `TIME`.
///
/// Every take reads it. It therefore reads the processor's counter, in 10 ns, instead of the system's clock, in 25 ns. If
/// the counter departs from the system's clock, as after a live migration, the system's clock is read from then on. Time
/// then goes on from the latest reading. Only the counter itself may step back.
#[derive(Debug)]
pub(crate) struct Clock {
    counter: quanta::Clock,
    /// The counter at the start.
    zero: u64,
    began: Instant,
    uses_system_clock: AtomicBool,
    /// The last comparison, and by how many µs the counter was ahead of the system's clock.
    compared: AtomicU64,
    ahead: AtomicI64,
    /// A clock that a test moves, in place of both.
    #[cfg(feature = "testing")]
    manual: Option<std::sync::Arc<ManualClock>>,
}

// === impl Clock ===

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the only place that may")]
    pub(crate) fn start() -> Self {
        let counter = quanta::Clock::new();
        let zero = counter.raw();
        Self {
            counter,
            zero,
            began: Instant::now(),
            uses_system_clock: AtomicBool::default(),
            compared: AtomicU64::default(),
            ahead: AtomicI64::default(),
            #[cfg(feature = "testing")]
            manual: None,
        }
    }

    /// A clock that a test moves. It is asked where another one asks the system's clock, so that others pay nothing.
    #[cfg(feature = "testing")]
    pub(crate) fn of_test(manual: std::sync::Arc<ManualClock>) -> Self {
        Self { uses_system_clock: AtomicBool::new(true), manual: Some(manual), ..Self::start() }
    }

    #[cfg(feature = "testing")]
    pub(crate) const fn manual(&self) -> Option<&std::sync::Arc<ManualClock>> {
        self.manual.as_ref()
    }

    /// Whether a test moves the clock.
    pub(crate) const fn is_manual(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.manual.is_some();
        #[cfg(not(feature = "testing"))]
        false
    }

    /// Whether clients may try first takes.
    pub(crate) fn has_first_takes(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.manual.as_ref().is_none_or(|manual| manual.has_first_takes.load(Relaxed));
        #[cfg(not(feature = "testing"))]
        true
    }

    #[inline]
    pub(crate) fn now(&self) -> Micros {
        if self.uses_system_clock.load(Relaxed) { self.by_system_clock() } else { self.by_counter() }
    }

    /// The time since the instant `began`; none if the clock has stepped back behind it.
    pub(crate) fn since(&self, began: Micros) -> Duration {
        Duration::from_micros(self.now().saturating_sub(began))
    }

    /// Compares the counter with the system's clock. Each control poll calls it.
    pub(crate) fn compare(&self) {
        let before = micros(self.began.elapsed());
        let counter = self.by_counter();
        let after = micros(self.began.elapsed());
        // An interrupted comparison says nothing.
        if after - before < STEP {
            self.note(counter, after);
        }
    }

    /// Records a reading of both clocks.
    fn note(&self, counter: Micros, system: Micros) {
        let ahead = counter as i64 - system as i64;
        let since = system.saturating_sub(self.compared.swap(system, Relaxed));
        if self.uses_system_clock.load(Relaxed) {
            return;
        }
        if ahead.abs_diff(self.ahead.load(Relaxed)) > since / DRIFT + 2 * STEP {
            self.ahead.fetch_max(ahead, Relaxed);
            self.uses_system_clock.store(true, Release);
        } else {
            self.ahead.store(ahead, Relaxed);
        }
    }

    #[inline]
    fn by_counter(&self) -> Micros {
        self.counter.delta_as_nanos(self.zero, self.counter.raw()) / 1_000
    }

    #[cold]
    fn by_system_clock(&self) -> Micros {
        #[cfg(feature = "testing")]
        if let Some(manual) = &self.manual {
            return manual.now();
        }
        fence(Acquire);
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
        assert!(!clock.uses_system_clock.load(Relaxed));
        let (earlier, later) = (clock.now(), clock.now());
        assert!(earlier <= later && later < SECOND);
    }

    #[test]
    fn one_that_jumps_or_stands_still_is_read_no_more_and_time_never_steps_back() {
        for (counter, expected) in [
            (5 * SECOND, 3 * SECOND),
            (0, 10),
            (SECOND, 10),
            (u64::MAX / 2_000, u64::MAX / 2_000 - 2 * SECOND),
        ] {
            let clock = Clock::start();
            clock.note(SECOND + 10, SECOND);
            clock.note(counter, 2 * SECOND);
            assert!(clock.uses_system_clock.load(Relaxed), "{counter}");
            // At 2 s of the system's clock, this is what the counter said or was expected to say, whichever is later.
            assert!((expected..expected + SECOND).contains(&clock.now()), "{counter}");
            clock.note(30 * SECOND, 3 * SECOND);
            assert!(clock.uses_system_clock.load(Relaxed), "for good");
            assert!((expected..expected + SECOND).contains(&clock.now()), "{counter}");
        }
    }
}
