//! FNV-1a, the hash that finds a key's shard and its place in a rollout.

/// FNV-1a of `key`, 64 bits.
pub(crate) fn fnv_1a(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
