//! The number of keys of a limit that are told as the most denied ones.

/// The number of a limit's keys that are told as the most denied ones: 0 for none, at most 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopKeys(u8);

/// A number of keys that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at most 100 keys are told, not {0}")]
pub struct TopKeysError(pub u64);

// === impl TopKeys ===

impl TopKeys {
    /// No keys are told, and none are counted.
    pub const NONE: Self = Self(0);

    /// The most keys that can be told.
    pub const MOST: Self = Self(100);

    /// The number `count`.
    ///
    /// # Errors
    /// When `count` is above 100.
    pub fn new(count: u64) -> Result<Self, TopKeysError> {
        match u8::try_from(count) {
            Ok(count @ 0..=100) => Ok(Self(count)),
            _ => Err(TopKeysError(count)),
        }
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}
