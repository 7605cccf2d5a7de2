//! The hash functions of keys: for the hashes that have their assignments, and for the filter.

use crate::fnv::fnv_1a;

/// Bits of the filter that each key sets.
pub(super) const BITS_SET: usize = 6;

pub(super) fn bits_of(key: &str, bits: u64) -> [u64; BITS_SET] {
    let first = mixed(fnv_1a(key));
    let step = mixed(first) | 1;
    std::array::from_fn(|i| first.wrapping_add(step.wrapping_mul(i as u64)) % bits.max(8))
}

/// The finisher of SplitMix64: every bit of the result depends on all bits.
pub(super) const fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}
