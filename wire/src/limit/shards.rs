//! The number of a limit's shards.

use std::num::NonZeroU16;

/// The number of shards of a limit, 1 to 1024. Each has a hash tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(NonZeroU16);

/// A number of shards outside 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit has 1 to 1024 shards, not {0}")]
pub struct ShardsError(pub u64);

// === impl Shards ===

impl Shards {
    /// One shard: the whole limit is on one node.
    pub const ONE: Self = Self(NonZeroU16::MIN);

    /// `count` shards.
    ///
    /// # Errors
    /// When `count` is outside 1 to 1024.
    pub fn new(count: u64) -> Result<Self, ShardsError> {
        let checked = u16::try_from(count).ok().filter(|n| *n <= 1024).and_then(NonZeroU16::new);
        checked.map(Self).ok_or(ShardsError(count))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}
