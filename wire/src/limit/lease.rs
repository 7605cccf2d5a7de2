//! Leases: tokens that workers take ahead.

use std::time::Duration;

use super::{Capacity, MAX_TOKENS};

/// A lease: the most tokens that a worker may take ahead, and the longest time for which it may keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    max: u64,
    ttl: Duration,
}

/// Why there is no such lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// No tokens, or more than 2^53.
    #[error("a lease is of 1 to 9007199254740992 (2^53) tokens, not {0}")]
    Max(u64),
    /// A time that is too short to be of use, or so long that other workers miss the tokens.
    #[error("a lease lasts 10ms to 1min, not {0:?}")]
    Ttl(Duration),
}

/// A lease of more tokens than the bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bucket holds {0} tokens at most: write max = {0} or less")]
pub struct LeaseSizeError(Capacity);

// === impl Lease ===

impl Lease {
    /// The time of a lease whose config gives none.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(1);

    /// At most `max` tokens for at most `ttl`.
    ///
    /// # Errors
    /// When `max` is not 1 to 2^53, or `ttl` not 10 ms to a minute.
    pub fn new(max: u64, ttl: Duration) -> Result<Self, LeaseError> {
        if max == 0 || max > MAX_TOKENS {
            return Err(LeaseError::Max(max));
        }
        if ttl < Duration::from_millis(10) || ttl > Duration::from_secs(60) {
            return Err(LeaseError::Ttl(ttl));
        }
        Ok(Self { max, ttl })
    }

    /// Checks the lease against the most tokens of a bucket.
    ///
    /// # Errors
    /// When it is of more than `capacity`.
    pub fn check_size(self, capacity: Capacity) -> Result<(), LeaseSizeError> {
        if self.max > capacity.get() { Err(LeaseSizeError(capacity)) } else { Ok(()) }
    }

    /// The most tokens that a worker holds of one bucket.
    pub const fn max(self) -> u64 {
        self.max
    }

    /// The longest time for which it keeps them unspent.
    pub const fn ttl(self) -> Duration {
        self.ttl
    }
}
