//! The filter of keys that may be assigned.

use super::{hashes::bits_of, shape::Shape};

/// The keys of a limit that may be assigned: a Bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFilter {
    bits: Vec<u8>,
}

// === impl KeyFilter ===

impl KeyFilter {
    /// The filter of `bits`, as Redis numbers them. Missing ones are 0.
    pub fn new(mut bytes: Vec<u8>, shape: &Shape) -> Self {
        bytes.resize(usize::try_from(shape.bits / 8).unwrap_or(usize::MAX), 0);
        Self { bits: bytes }
    }

    /// Adds `key`.
    pub fn insert(&mut self, key: &str) {
        for bit in bits_of(key, self.len()) {
            // Redis counts the bits of a byte from the highest one.
            self.bits[(bit / 8) as usize] |= 0x80 >> (bit % 8);
        }
    }

    /// Whether `key` may have been added. If not, it has not been.
    pub fn may_have(&self, key: &str) -> bool {
        bits_of(key, self.len()).iter().all(|bit| self.bits[(bit / 8) as usize] & (0x80 >> (bit % 8)) != 0)
    }

    /// The filter as Redis keeps it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn len(&self) -> u64 {
        self.bits.len() as u64 * 8
    }
}
