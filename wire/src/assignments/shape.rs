//! The arrangement of a limit's assignments: the number of its hashes, and the size of its filter.

use std::{fmt, str::FromStr};

use super::hashes::{BITS_SET, bits_of, mixed};
use crate::fnv::fnv_1a;

/// Assignments of one hash, on average. A hash of up to 128 short fields is kept as a list, without pointers.
const MOST_OF_HASH: u64 = 64;
/// Hashes of a limit at least.
const FEWEST_HASHES: u64 = 1_024;
/// Bits of the filter for each assignment, at least.
pub(super) const BITS_OF_KEY: u64 = 10;

/// The arrangement of a limit's assignments in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Counts arrangements of the limit. It is part of the names of keys.
    pub number: u64,
    /// Its hashes.
    pub hashes: u64,
    /// Bits of the filter, a multiple of 8.
    pub bits: u64,
    /// The instant at which assignments take force that do not name one, in µs of Redis `TIME`.
    pub at: u64,
}

/// A text that is no arrangement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no arrangement of assignments")]
pub struct ShapeError(String);

// === impl Shape ===

impl Shape {
    /// An arrangement for this many assignments.
    pub(crate) fn for_keys(number: u64, keys: u64) -> Self {
        let hashes = keys.div_ceil(MOST_OF_HASH).max(FEWEST_HASHES);
        let bits = (keys.max(FEWEST_HASHES * MOST_OF_HASH) * BITS_OF_KEY).next_multiple_of(8);
        Self { number, hashes, bits, at: 0 }
    }

    /// Whether hashes and filter are large enough for this many assignments.
    pub(crate) fn has_room_for(&self, keys: u64) -> bool {
        keys <= self.hashes * MOST_OF_HASH * 3 / 2
    }

    /// The hash of `key`.
    pub fn hash_of(&self, key: &str) -> u64 {
        // The remainder by the number of hashes, of bits that the filter uses otherwise.
        mixed(fnv_1a(key) ^ 0x5bd1_e995) % self.hashes.max(1)
    }

    /// The bits that `key` sets in the filter.
    pub(crate) fn bits_of(&self, key: &str) -> [u64; BITS_SET] {
        bits_of(key, self.bits)
    }
}

/// `number hashes bits at`
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.number, self.hashes, self.bits, self.at)
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let numbers: Option<Vec<u64>> = text.split(' ').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            // No filter is larger than a string of Redis.
            Some(&[number, hashes @ 1..=1_048_576, bits @ 8..=4_294_967_296, at]) => {
                Ok(Self { number, hashes, bits, at })
            }
            _ => Err(ShapeError(text.chars().take(80).collect())),
        }
    }
}
