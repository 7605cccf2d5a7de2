//! The names of everything topup keeps in Redis, here in the default [namespace](crate::namespace::Namespace), `topup`.
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
//! topup:{api:0}:holds      zset    open holds that are put back if nobody settles them, scored by the end of their time
//! topup:{api:0}:settled:ID string  a hold that was settled a moment ago: its tokens that were not charged
//! topup:{api:0}:h:         hash    under fair-shares: the total, and each part of the limit
//! topup:{gpu:0}:p:alice    zset    under concurrency: holders of permits, scored by the instant until which they hold
//! topup:{gpu:0}:q:alice    zset    its waiters, scored by their turn
//! topup:{gpu:0}:w:alice    zset    the same waiters, scored by the instant until which they count as alive
//! topup:{gpu:0}:permits    zset    keys of the shard with holders or waiters, scored by the last of those instants
//! topup:{api:0}:counts     hash    takes of limit "api", as workers count them
//! topup:{user:0}:top3      zset    keys of limit "user" by denied takes of a minute; of six minutes, in turn
//! topup:{user:0}:penalty:alice  hash  denied takes and blocks of key "alice", of a limit with a penalty
//! topup:throttle:{alice}   string  CL.THROTTLE of key "alice", on a server without that command
//! topup:{topup}:limits     hash    published limits and their shards
//! topup:{topup}:generation string  counts publications
//! topup:{topup}:daemons    zset    daemons alive, scored by the instant their heartbeat is good until
//! topup:{topup}:daemon:ID  hash    how one daemon is doing, and the limits of its config
//! topup:{topup}:claims     hash    which config holds which limit: LIMIT OWNER -> fingerprint of the terms, instant
//! topup:{topup}:owners     hash    the last heartbeat of each config
//! topup:{topup}:schema     string  the version of all this
//! topup:{topup}:workers    zset    workers alive that may decide by themselves, scored like daemons
//! topup:{topup}:assigned   hash    version of the assignments of keys to plans, and their arrangement by limit
//! topup:{topup}:assigned:user:1:7       hash    assignments of limit "user" in arrangement 1, hash 7: key -> plan
//! topup:{topup}:assigned:user:1:filter  string  the keys that may be assigned: a Bloom filter
//! topup:{topup}:assignments zset   the last changes: LIMIT KEY, scored by versions
//! topup:{topup}:assigned:user~source:1:7  hash  the same, of the source of limit "user"
//! topup:{topup}:sources    hash    who reads the source of which limit, and what came of it: LIMIT FIELD -> value
//! topup:{topup}:moved:user:KEY  string  the last change of the key's plan that was made, and the bucket that has its tokens
//! topup:{topup}:moved:!user:KEY  string  a worker moves tokens of the key from one hash slot to another
//! topup:{topup}:changes    zset    limits that have changed, by the generation of their last change
//! topup:{topup}:defined    hash    limits that code has defined -> owner
//! topup:{topup}:ends       zset    the same limits, scored by the ends of their definitions
//! topup:{topup}:pauses     zset    paused limits and keys, LIMIT or LIMIT:KEY, scored by the ends of their pauses
//! ```
//!
//! Under the namespace `shop`, the first line is `shop:{api:0}:limit`, and the last is `shop:{shop}:schema`.
//!
//! A limit's name has no colon, so its tags can never be `{topup}`. Trials beside a limit are published under names
//! that no config can give: `api~candidate`, `api~lazy`. Plans have such names, too: `user/gold`.

mod limit_keys;
mod patterns;
mod published;
mod shard_keys;
mod shared_keys;

pub(crate) use published::is_published;
pub(crate) use shard_keys::{FAIR_SHARES_LETTER, PERMIT_LETTERS, letter};
pub use shard_keys::{KeyHash, ShardKeys, shard_of};

#[cfg(test)]
mod tests;
