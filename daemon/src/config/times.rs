//! The refill period, the time a lease lasts and the length of a window, as written.

use std::{str::FromStr, time::Duration};

use topup_wire::limit::{Lease, Rate};

/// The shortest tick.
pub const MIN_TICK: Duration = Duration::from_millis(1);
/// The longest tick: with a longer one, people would wait minutes for tokens they are owed.
pub const MAX_TICK: Duration = Duration::from_secs(60);

/// A refill period of [`MIN_TICK`] to [`MAX_TICK`], 100 ms unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tick(Duration);

/// A text that is no tick.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a tick of 1ms to 60s: write a number and ms or s, such as \"100ms\"")]
pub(super) struct TickError(String);

/// The longest that a worker keeps tokens it has taken ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ttl(Duration);

/// A text that is no such time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time of 10ms to 60s: write a number and ms or s, such as \"1s\"")]
pub(super) struct TtlError(String);

/// The length of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length(Duration);

/// A text that is no such time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time of 1ms to 366d: write a number and ms, s, min, h or d, such as \"1min\"")]
pub(super) struct LengthError(String);

// === impl Tick ===

impl Tick {
    pub(super) const fn get(self) -> Duration {
        self.0
    }
}

impl Default for Tick {
    fn default() -> Self {
        Self(Duration::from_millis(100))
    }
}

impl FromStr for Tick {
    type Err = TickError;

    fn from_str(text: &str) -> Result<Self, TickError> {
        let legal = duration(text).filter(|tick| (MIN_TICK..=MAX_TICK).contains(tick));
        legal.map(Self).ok_or_else(|| TickError(text.chars().take(80).collect()))
    }
}

// === impl Ttl ===

impl Ttl {
    pub(super) const fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Ttl {
    type Err = TtlError;

    fn from_str(text: &str) -> Result<Self, TtlError> {
        let legal = duration(text).filter(|ttl| Lease::new(1, *ttl).is_ok());
        legal.map(Self).ok_or_else(|| TtlError(text.chars().take(80).collect()))
    }
}

// === impl Length ===

impl Length {
    pub(super) const fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Length {
    type Err = LengthError;

    fn from_str(text: &str) -> Result<Self, LengthError> {
        duration(text).map(Self).ok_or_else(|| LengthError(text.chars().take(80).collect()))
    }
}

/// Written like the interval of a rate, so that times have one notation; but never without a number.
fn duration(text: &str) -> Option<Duration> {
    let numbered = text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    format!("1/{text}").parse::<Rate>().ok().filter(|_| numbered).map(Rate::interval)
}
