//! The names of everything topup keeps in Redis.
//!
//! ```text
//! topup:{api:0}:limit      hash    the record of limit "api", shard 0
//! topup:{api:0}:due        zset    its buckets that have a counter, scored by the instant they are credited up to
//! topup:{api:0}:former     zset    those not yet carried over the last change of terms
//! topup:{api:0}:b:         string  tokens of the one bucket of an unkeyed limit
//! topup:{user:3}:b:alice   string  tokens of the bucket of key "alice"
//! topup:{user:3}:l:alice   hash    the same under the algorithm lazy-token-bucket
//! topup:{topup}:limits     hash    published limits and their shards
//! topup:{topup}:generation string  counts publications
//! topup:{topup}:daemons    zset    daemons alive, scored by the instant their heartbeat is good until
//! topup:{topup}:daemon:ID  hash    how one daemon is doing
//! ```
//!
//! A limit's name has no colon, so its tags can never be `{topup}`.

use crate::limit::{LimitName, Shards};

/// Published limits and their shards.
pub const LIMITS: &str = "topup:{topup}:limits";
/// Counts publications; workers compare it.
pub const GENERATION: &str = "topup:{topup}:generation";
/// Daemons alive.
pub const DAEMONS: &str = "topup:{topup}:daemons";

/// How the daemon `id` is doing.
pub fn daemon_details(id: &str) -> String {
    format!("topup:{{topup}}:daemon:{id}")
}

/// The keys of one shard of a limit. All share one hash tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardKeys {
    /// The record.
    pub record: String,
    /// The due index.
    pub due: String,
    /// The former index.
    pub former: String,
    /// What a counter's key begins with; a member of the due index follows.
    pub counters: String,
    /// What the key of a lazy bucket begins with; its key follows.
    pub lazy: String,
}

/// The shard a key's bucket lives in: FNV-1a, 64 bits, modulo the number of shards.
///
/// Any even hash would do; this one is a few lines in every language a worker may be written in.
pub fn shard_of(key: &str, shards: Shards) -> u16 {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The remainder is below a u16.
    (hash % u64::from(shards.get())) as u16
}

// === impl ShardKeys ===

impl ShardKeys {
    /// The keys of `shard` of the limit `name`.
    pub fn new(name: &LimitName, shard: u16) -> Self {
        let key = |what: &str| format!("topup:{{{name}:{shard}}}:{what}");
        Self {
            record: key("limit"),
            due: key("due"),
            former: key("former"),
            counters: key("b:"),
            lazy: key("l:"),
        }
    }

    /// The counter of one bucket.
    pub fn counter(&self, member: &str) -> String {
        [&self.counters, member].concat()
    }

    /// The state of one lazy bucket.
    pub fn lazy_state(&self, member: &str) -> String {
        [&self.lazy, member].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_found_by_its_name_and_key() {
        let name: LimitName = "user".parse().unwrap();
        let shards = Shards::new(8).unwrap();
        // FNV-1a of "a" is af63dc4c8601ec8c.
        assert_eq!(shard_of("a", shards), 0xc % 8);
        let keys = ShardKeys::new(&name, 4);
        assert_eq!(keys.counter("a"), "topup:{user:4}:b:a");
        assert_eq!(keys.record, "topup:{user:4}:limit");
    }
}
