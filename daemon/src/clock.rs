//! The only module that reads this machine's clock, for durations. Instants come from Redis `TIME`.

use std::time::{Duration, Instant};

/// An instant of this machine's steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Instant);

// === impl Moment ===

impl Moment {
    /// Now.
    #[allow(clippy::disallowed_methods, reason = "the only place that reads this clock")]
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// The time since this moment.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The last Redis `TIME`, continued by the steady clock.
#[derive(Clone, Copy, Debug)]
pub struct RedisTime {
    heard: u64,
    at: Moment,
}

// === impl RedisTime ===

impl RedisTime {
    /// A reply of Redis has just told the time `now`, in µs.
    pub fn heard(now: u64) -> Self {
        Self { heard: now, at: Moment::now() }
    }

    /// The Redis `TIME` of this moment, in µs.
    pub fn now(self) -> u64 {
        self.heard + self.at.elapsed().as_micros() as u64
    }

    /// The time since Redis told the time.
    pub fn age(self) -> Duration {
        self.at.elapsed()
    }
}
