//! The names of everything topup keeps in Redis, here in the default [namespace](Namespace), `topup`.
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

mod shard_keys;

use crate::{
    assignments::Shape,
    limit::{Algorithm, LimitName},
    namespace::Namespace,
};

pub(crate) use shard_keys::{FAIR_SHARES_LETTER, PERMIT_LETTERS, letter};
pub use shard_keys::{KeyHash, ShardKeys, shard_of};

/// Slices of the most denied keys: one begins, one is on its way out, and four are told as a whole.
const TOP_SLICES: usize = 6;

/// Gives [`Namespace`] the keys that all limits share, each under its own name.
macro_rules! shared_keys {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        impl Namespace {
            $($(#[$doc])* pub fn $name(self) -> String { self.shared(stringify!($name)) })+
        }
    };
}

// === impl Namespace ===

shared_keys! {
    /// Published limits and their shards.
    limits,
    /// Counts publications; workers compare it.
    generation,
    /// Daemons alive.
    daemons,
    /// The [schema](crate::schema) of all these keys.
    schema,
    /// Claims of configs to limits.
    claims,
    /// Last heartbeats of configs.
    owners,
    /// Workers alive that may decide by themselves while Redis is away.
    workers,
    /// Paused limits and keys.
    pauses,
    /// The limits that have changed lately.
    changes,
    /// Owners of the limits that code has defined.
    defined,
    /// The ends of these definitions.
    ends,
    /// The version of all assignments, and the arrangement of each limit's.
    assigned,
    /// The news that daemons tell of the sources of limits.
    sources,
}

impl Namespace {
    /// The last changes of assignments.
    pub(crate) fn assignment_log(self) -> String {
        self.shared("assignments")
    }

    /// One hash of the assignments of the limit `name`.
    pub(crate) fn assignment_hash(self, name: &LimitName, shape: &Shape, hash: u64) -> String {
        self.shared(&format!("assigned:{name}:{}:{hash}", shape.number))
    }

    /// The keys of the limit `name` that may be assigned.
    pub(crate) fn assignment_filter(self, name: &LimitName, shape: &Shape) -> String {
        self.shared(&format!("assigned:{name}:{}:filter", shape.number))
    }

    /// The last move of a key's tokens to another plan: its instant, and the limit or plan whose bucket has them since.
    pub(crate) fn plan_mark(self, name: &LimitName, key: &str) -> String {
        self.shared(&format!("moved:{name}:{key}"))
    }

    /// Whether a worker is moving a key's tokens to another plan, in steps. No limit has such a name.
    pub(crate) fn plan_turn(self, name: &LimitName, key: &str) -> String {
        self.shared(&format!("moved:!{name}:{key}"))
    }

    /// Details of the daemon `id`.
    pub fn daemon_details(self, id: &str) -> String {
        self.shared(&format!("daemon:{id}"))
    }

    fn shared(self, what: &str) -> String {
        format!("{self}:{{{self}}}:{what}")
    }

    /// Trial metrics of the limit `name`.
    pub(crate) fn counts_of(self, name: &LimitName) -> String {
        format!("{self}:{{{name}:0}}:counts")
    }

    /// The most denied keys of the limit `name`, in slices of time that take turns.
    pub(crate) fn top_slices(self, name: &LimitName) -> [String; TOP_SLICES] {
        std::array::from_fn(|slice| format!("{self}:{{{name}:0}}:top{slice}"))
    }

    /// The denied takes and the blocks of `key`, of the limit `name`.
    pub(crate) fn penalty_of(self, name: &LimitName, key: &str) -> String {
        format!("{self}:{{{name}:0}}:penalty:{key}")
    }

    /// The state of a throttle. No key of a limit begins so.
    pub fn throttle_state(self, key: &str) -> String {
        format!("{self}:throttle:{{{key}}}")
    }

    /// The key of a throttle that the module redis-cell decides. In the default namespace it is `key` itself, so that
    /// other clients of the module share it.
    pub(crate) fn cell_key(self, key: &str) -> String {
        if self.is_default() { key.to_owned() } else { format!("{self}:cell:{{{key}}}") }
    }

    /// Pattern of `SCAN` for the keys of a limit's states. Other keys may match it too, see [`state_of`](Self::state_of).
    pub(crate) fn states_pattern(self, name: &LimitName) -> String {
        // Neither a namespace nor a name has a character with a meaning in patterns.
        format!("{self}:{{{name}:*}}:?:*")
    }

    /// The shard and the member of a state of the limit `name` under `algorithm`; `None` if `key` is no such state.
    pub(crate) fn state_of<'k>(
        self,
        name: &LimitName,
        algorithm: Algorithm,
        key: &'k str,
    ) -> Option<(u16, &'k str)> {
        let rest = self.tagged(key)?.strip_prefix(name.as_str())?.strip_prefix(':')?;
        let (shard, rest) = rest.split_once("}:")?;
        let member = match algorithm {
            Algorithm::Concurrency => rest.strip_prefix(PERMIT_LETTERS)?,
            _ => rest.strip_prefix(letter(algorithm))?,
        };
        let member = member.strip_prefix(':')?;
        Some((shard.parse().ok()?, member))
    }

    /// Pattern of `SCAN` for the keys of counters and buckets at rest. Other keys may match it too, see
    /// [`bucket_of`](Self::bucket_of).
    pub(crate) fn counters_pattern(self) -> String {
        format!("{self}:{{*:*}}:b:*")
    }

    /// The limit, shard and member of the counter at `key`; `None` if it is none.
    pub(crate) fn bucket_of(self, key: &str) -> Option<(LimitName, u16, &str)> {
        let (name, _) = self.tagged(key)?.split_once(':')?;
        let name = LimitName::published(name).ok()?;
        let (shard, member) = self.state_of(&name, Algorithm::TokenBucket, key)?;
        Some((name, shard, member))
    }

    /// The rest of `key` after `topup:{`.
    fn tagged(self, key: &str) -> Option<&str> {
        key.strip_prefix(self.as_str())?.strip_prefix(":{")
    }
}

/// Whether only daemons write `key`: a record, or a key about all limits.
pub(crate) fn is_published(key: &[u8]) -> bool {
    let parts = || {
        let (namespace, rest) = std::str::from_utf8(key).ok()?.split_once(":{")?;
        let (tag, end) = rest.split_once("}:")?;
        Some((namespace, tag, end))
    };
    // The key of a throttle has a longer prefix. A bucket's key may hold anything, but begins with a letter. Workers
    // write their own index, and assign keys.
    parts().is_some_and(|(namespace, tag, end)| {
        let is_of_workers = |end: &str| {
            let begins = |with| end.starts_with(with);
            end == "workers" || end == "assignments" || begins("assigned:") || begins("moved:")
        };
        !namespace.contains(':') && (tag == namespace && !is_of_workers(end) || end == "limit")
    })
}

#[cfg(test)]
mod tests;
