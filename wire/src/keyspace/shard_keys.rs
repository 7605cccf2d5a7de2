//! The keys of one shard of a limit.

use crate::{
    constants::{
        FIXED_WINDOW_LETTER, LAZY_LETTER, LEAKY_LETTER, SLIDING_COUNTER_LETTER, SLIDING_WINDOW_LETTER,
    },
    fnv::fnv_1a,
    hash_slot::HashSlot,
    limit::{Algorithm, LimitName, Shards},
    namespace::Namespace,
};

/// The keys of one shard of a limit. All share one hash tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardKeys {
    /// The record.
    pub record: String,
    /// The due index.
    pub due: String,
    /// The previous index: buckets not migrated over the last change of terms.
    pub previous: String,
    /// Beginning of a counter's key. A member of the due index follows it.
    pub counters: String,
    /// Hash slot of all of them.
    pub hash_slot: HashSlot,
    /// Beginning of all of them.
    shard: String,
}

/// The letters of permits in the keys of a shard: holders, the order of waiters, and their leases.
pub(crate) const PERMIT_LETTERS: [char; 3] = ['p', 'q', 'w'];

/// The letter of fair shares: one state has all parts of a limit.
pub(crate) const FAIR_SHARES_LETTER: char = 'h';

/// The letter of an algorithm in the keys of its states.
pub(crate) const fn letter(algorithm: Algorithm) -> char {
    match algorithm {
        Algorithm::TokenBucket => 'b',
        Algorithm::LazyTokenBucket => LAZY_LETTER as char,
        Algorithm::Gcra => 'g',
        Algorithm::LeakyBucket => LEAKY_LETTER as char,
        Algorithm::FixedWindow => FIXED_WINDOW_LETTER as char,
        Algorithm::SlidingWindow => SLIDING_WINDOW_LETTER as char,
        Algorithm::SlidingCounter => SLIDING_COUNTER_LETTER as char,
        Algorithm::Concurrency => PERMIT_LETTERS[0],
        Algorithm::FairShares => FAIR_SHARES_LETTER,
    }
}

/// The hash of a key, which tells the shard of its bucket: FNV-1a, 64 bits.
///
/// Any even hash would do. This one takes a few lines in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

/// The shard of a key's bucket: the key's hash modulo the number of shards.
pub fn shard_of(key: &str, shards: Shards) -> u16 {
    KeyHash::of(key).shard(shards)
}

// === impl KeyHash ===

impl KeyHash {
    /// The hash of `key`.
    pub fn of(key: &str) -> Self {
        Self(fnv_1a(key))
    }

    /// The shard of the key's bucket.
    pub const fn shard(self, shards: Shards) -> u16 {
        // The remainder is below a u16.
        (self.0 % shards.get() as u64) as u16
    }
}

// === impl ShardKeys ===

impl ShardKeys {
    /// The keys of `shard` of the limit `name`.
    pub fn new(namespace: Namespace, name: &LimitName, shard: u16) -> Self {
        let shard = format!("{namespace}:{{{name}:{shard}}}:");
        let key = |what: &str| [&shard, what].concat();
        Self {
            record: key("limit"),
            due: key("due"),
            previous: key("former"),
            counters: key("b:"),
            hash_slot: HashSlot::of(shard.as_bytes()),
            shard,
        }
    }

    /// The counter of one bucket.
    pub fn counter(&self, member: &str) -> String {
        [&self.counters, member].concat()
    }

    /// The key of one bucket's state under `algorithm`.
    pub fn state(&self, algorithm: Algorithm, member: &str) -> String {
        // Every take comes here. Concatenation is faster than formatting.
        let mut letters = [0; 4];
        [self.shard.as_str(), letter(algorithm).encode_utf8(&mut letters), ":", member].concat()
    }

    /// The key in which the state of `member` is kept. Under fair shares, it is that of all members.
    pub(crate) fn stored(&self, algorithm: Algorithm, member: &str) -> String {
        self.state(algorithm, if algorithm.has_parts() { "" } else { member })
    }

    /// The open holds of the shard that are remembered.
    pub fn holds(&self) -> String {
        [&self.shard, "holds"].concat()
    }

    /// The mark of the settled hold `id`.
    pub(crate) fn settled(&self, id: &str) -> String {
        [&self.shard, "settled:", id].concat()
    }

    /// The index of keys with holders of permits, or with waiters.
    pub fn permits(&self) -> String {
        [&self.shard, "permits"].concat()
    }

    /// The keys of the permits of `member`: holders, the order of waiters, and their leases.
    pub fn permits_of(&self, member: &str) -> [String; 3] {
        PERMIT_LETTERS.map(|letter| format!("{}{letter}:{member}", self.shard))
    }

    /// The member of the bucket whose state is at `state`, a key of this shard.
    pub fn member<'s>(&self, state: &'s str) -> &'s str {
        state.get(self.counters.len()..).unwrap_or_default()
    }
}
