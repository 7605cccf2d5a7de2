//! The most tokens a bucket holds.

use std::fmt;

use crate::constants::EXACT;

/// The largest number of tokens: 2^53. Scripts compute with doubles, which are exact up to here.
pub const MAX_TOKENS: u64 = EXACT;

/// The most tokens a bucket holds: 1 to [`MAX_TOKENS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity(u64);

/// A capacity outside 1 to [`MAX_TOKENS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a capacity is a whole number of tokens from 1 to 9007199254740992 (2^53), not {0}")]
pub struct CapacityError(pub u64);

// === impl Capacity ===

impl Capacity {
    /// A capacity of `tokens`.
    ///
    /// # Errors
    /// When `tokens` is 0 or above [`MAX_TOKENS`].
    pub const fn new(tokens: u64) -> Result<Self, CapacityError> {
        if tokens == 0 || tokens > MAX_TOKENS {
            return Err(CapacityError(tokens));
        }
        Ok(Self(tokens))
    }

    /// The number of tokens.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
