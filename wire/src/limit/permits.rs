//! Permits: the terms of a limit on how many are at work at once.

use std::{fmt, time::Duration};

use super::Capacity;

/// The most permits of one key: 10,000. A script that grants or renews them all takes some ms.
pub const MOST_PERMITS: u64 = 10_000;

/// The time for which a permit is good after each renewal: 500 ms to 1 h.
///
/// The place of a holder that died is free again after this time. A worker renews its permits three times within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitTtl(u64);

/// A time outside 500 ms to 1 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a permit is good for 500ms to 1h after each renewal, not {0:?}")]
pub struct PermitTtlError(pub Duration);

/// A number of permits outside 1 to [`MOST_PERMITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit is of 1 to {MOST_PERMITS} permits, not {0}")]
pub struct PermitsError(pub u64);

/// The capacity of a limit of `limit` permits.
///
/// # Errors
/// When `limit` is 0 or above [`MOST_PERMITS`].
pub fn permits_at_once(limit: u64) -> Result<Capacity, PermitsError> {
    Capacity::new(limit).ok().filter(|_| limit <= MOST_PERMITS).ok_or(PermitsError(limit))
}

// === impl PermitTtl ===

impl PermitTtl {
    /// 30 s: unless the config says otherwise.
    pub const DEFAULT: Self = Self(30_000_000);

    /// A time of `ttl`.
    ///
    /// # Errors
    /// When `ttl` is outside 500 ms to 1 h.
    pub fn new(ttl: Duration) -> Result<Self, PermitTtlError> {
        let range = Duration::from_millis(500)..=Duration::from_secs(3_600);
        // At most an hour: far below 2^64 µs.
        if range.contains(&ttl) { Ok(Self(ttl.as_micros() as u64)) } else { Err(PermitTtlError(ttl)) }
    }

    /// The time in µs.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The time.
    pub const fn get(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl fmt::Display for PermitTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}
