//! The one place that reads this machine's clock. It measures durations; instants come from Redis only.

use std::time::{Duration, Instant};

/// An instant of this machine's steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Instant);

// === impl Moment ===

impl Moment {
    /// Now.
    #[allow(clippy::disallowed_methods, reason = "the one place")]
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// How long ago this was.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Redis's clock as last heard, carried on by the steady clock until it is heard again.
#[derive(Clone, Copy, Debug)]
pub struct RedisTime {
    heard: u64,
    at: Moment,
}

// === impl RedisTime ===

impl RedisTime {
    /// Redis says it is `now` (µs).
    pub fn heard(now: u64) -> Self {
        Self { heard: now, at: Moment::now() }
    }

    /// What Redis would say now, in µs.
    pub fn now(self) -> u64 {
        self.heard + self.at.elapsed().as_micros() as u64
    }

    /// How long ago Redis was heard.
    pub fn age(self) -> Duration {
        self.at.elapsed()
    }
}
