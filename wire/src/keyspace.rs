//! The names of everything topup keeps in Redis.
//!
//! ```text
//! topup:{api:0}:limit      hash    the record of limit "api", shard 0
//! topup:{api:0}:due        zset    its buckets that are counting, scored by the instant they are credited up to
//! topup:{api:0}:former     zset    the previous index: buckets not yet migrated over the last change of terms
//! topup:{api:0}:b:         string  the one bucket of an unkeyed limit: tokens left, or when it is full
//! (scripts/rest.lua) topup:{user:3}:b:alice   string  the bucket of key "alice"
//! topup:{user:3}:l:alice   string  the same under lazy-token-bucket
//! topup:{user:3}:g:alice   string  under gcra: when it is full
//! topup:{user:3}:k:alice   string  under leaky-bucket
//! topup:{user:3}:f:alice   string  under fixed-window
//! topup:{user:3}:s:alice   list    under sliding-window
//! topup:{user:3}:c:alice   string  under sliding-counter
//! topup:{api:0}:counts     hash    what workers count of limit "api" while it is being tried out
//! topup:throttle:{alice}   string  CL.THROTTLE of key "alice", on a server without that command
//! topup:{topup}:limits     hash    published limits and their shards
//! topup:{topup}:generation string  counts publications
//! topup:{topup}:daemons    zset    daemons alive, scored by the instant their heartbeat is good until
//! topup:{topup}:daemon:ID  hash    how one daemon is doing
//! ```
//!
//! A limit's name has no colon, so its tags can never be `{topup}`. Trials beside a limit are published under names
//! that no config can give: `api~candidate`, `api~lazy`.

use crate::{
    constants::{
        FIXED_WINDOW_LETTER, LAZY_LETTER, LEAKY_LETTER, SLIDING_COUNTER_LETTER, SLIDING_WINDOW_LETTER,
    },
    fnv::fnv_1a,
    hash_slot::HashSlot,
    limit::{Algorithm, LimitName, Shards},
};

/// Beginning of every key, before the first colon.
pub const PREFIX: &str = "topup";
/// Published limits and their shards.
pub const LIMITS: &str = "topup:{topup}:limits";
/// Counts publications; workers compare it.
pub const GENERATION: &str = "topup:{topup}:generation";
/// Daemons alive.
pub const DAEMONS: &str = "topup:{topup}:daemons";

/// Details of the daemon `id`.
pub fn daemon_details(id: &str) -> String {
    format!("topup:{{topup}}:daemon:{id}")
}

/// Trial metrics of the limit `name`.
pub(crate) fn counts_of(name: &LimitName) -> String {
    format!("topup:{{{name}:0}}:counts")
}

/// The state of a throttle. No key of a limit begins so.
pub fn throttle_state(key: &str) -> String {
    format!("topup:throttle:{{{key}}}")
}

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
    }
}

/// The shard of a key's bucket: FNV-1a, 64 bits, modulo the number of shards.
///
/// Any even hash would do. This one takes a few lines in every language.
pub fn shard_of(key: &str, shards: Shards) -> u16 {
    // The remainder is below a u16.
    (fnv_1a(key) % u64::from(shards.get())) as u16
}

// === impl ShardKeys ===

impl ShardKeys {
    /// The keys of `shard` of the limit `name`.
    pub fn new(name: &LimitName, shard: u16) -> Self {
        let shard = format!("topup:{{{name}:{shard}}}:");
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

    /// The member of the bucket whose state is at `state`, a key of this shard.
    pub fn member<'s>(&self, state: &'s str) -> &'s str {
        state.get(self.counters.len()..).unwrap_or_default()
    }
}

/// Whether only daemons write `key`: a record, or a key about all limits.
pub(crate) fn is_published(key: &[u8]) -> bool {
    let parts = || {
        let (prefix, rest) = std::str::from_utf8(key).ok()?.split_once(":{")?;
        let (tag, end) = rest.split_once("}:")?;
        Some((prefix, tag, end))
    };
    // The key of a throttle has a longer prefix. A bucket's key may hold anything, but begins with a letter.
    parts().is_some_and(|(prefix, tag, end)| !prefix.contains(':') && (tag == "topup" || end == "limit"))
}

/// Pattern of `SCAN` for the keys of a limit's states. Other keys may match it too, see [`state_of`].
pub(crate) fn states_pattern(name: &LimitName) -> String {
    // A name has no character with a meaning in patterns.
    format!("topup:{{{name}:*}}:?:*")
}

/// The shard and the member of a state of the limit `name` under `algorithm`; `None` if `key` is no such state.
pub(crate) fn state_of<'k>(name: &LimitName, algorithm: Algorithm, key: &'k str) -> Option<(u16, &'k str)> {
    let rest = key.strip_prefix("topup:{")?.strip_prefix(name.as_str())?.strip_prefix(':')?;
    let (shard, rest) = rest.split_once("}:")?;
    let member = rest.strip_prefix(letter(algorithm))?.strip_prefix(':')?;
    Some((shard.parse().ok()?, member))
}

/// Pattern of `SCAN` for the keys of counters and buckets at rest. Other keys may match it too, see [`bucket_of`].
pub(crate) const COUNTERS_PATTERN: &str = "topup:{*:*}:b:*";

/// The limit, shard and member of the counter at `key`; `None` if it is none.
pub(crate) fn bucket_of(key: &str) -> Option<(LimitName, u16, &str)> {
    let (name, _) = key.strip_prefix("topup:{")?.split_once(':')?;
    let name = LimitName::published(name).ok()?;
    let (shard, member) = state_of(&name, Algorithm::TokenBucket, key)?;
    Some((name, shard, member))
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
        let state = keys.state(Algorithm::LazyTokenBucket, "a");
        assert_eq!((state.as_str(), keys.member(&state)), ("topup:{user:4}:l:a", "a"));
        assert_eq!(state_of(&name, Algorithm::LazyTokenBucket, &state), Some((4, "a")));
    }

    #[test]
    fn a_state_is_told_from_whatever_looks_like_one() {
        let name: LimitName = "user".parse().unwrap();
        for key in
            ["topup:{user:4}:b:}:l:a", "topup:{users:4}:l:a", "topup:{user:4}:limit", "topup:{user:}:l:a"]
        {
            assert_eq!(state_of(&name, Algorithm::LazyTokenBucket, key), None, "{key}");
        }
        assert_eq!(bucket_of("topup:{user:4}:b:}:b:a"), Some((name, 4, "}:b:a")));
        for key in
            ["topup:{user:4}:due", "topup:{user:4}:l:a", "topup:{topup}:limits", "topup:throttle:{a:1}:b:c"]
        {
            assert_eq!(bucket_of(key), None, "{key}");
        }
        let odd = "topup:{user:4}:l:}:g:a";
        assert_eq!(state_of(&name, Algorithm::LazyTokenBucket, odd), Some((4, "}:g:a")));
    }

    #[test]
    fn a_key_of_daemons_is_told_from_buckets_that_look_like_one() {
        for key in ["topup:{user:4}:limit", LIMITS, GENERATION, DAEMONS, "topup:{topup}:daemon:x"] {
            assert!(is_published(key.as_bytes()), "{key}");
        }
        for member in ["}:limit", "limit", ":{topup}:limits", "topup:{a:0}:limit", ""] {
            let keys = ShardKeys::new(&"user".parse().unwrap(), 4);
            assert!(!is_published(keys.counter(member).as_bytes()), "{member}");
            assert!(!is_published(throttle_state(member).as_bytes()), "{member}");
        }
        for member in ["topup}:limits", "a}:limit", "{topup}:x"] {
            assert!(!is_published(throttle_state(member).as_bytes()), "{member}");
        }
        assert!(!is_published(b"topup:{user:4}:due") && !is_published(b"\xff:{topup}:x"));
    }

    #[test]
    fn no_two_algorithms_share_a_key() {
        let letters: std::collections::BTreeSet<char> = Algorithm::ALL.map(letter).into();
        assert_eq!(letters.len(), Algorithm::ALL.len());
    }
}
