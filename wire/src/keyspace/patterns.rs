//! Patterns of scans for buckets, and what a key tells that matches one.

use super::shard_keys::{PERMIT_LETTERS, letter};
use crate::{
    limit::{Algorithm, LimitName},
    namespace::Namespace,
};

// === impl Namespace ===

impl Namespace {
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

    /// Pattern of `SCAN` for the keys of counters, of buckets at rest and of fixed windows. Other keys may match it too,
    /// see [`bucket_of`](Self::bucket_of).
    pub(crate) fn counters_pattern(self) -> String {
        format!("{self}:{{*:*}}:[{}{}]:*", letter(Algorithm::TokenBucket), letter(Algorithm::FixedWindow))
    }

    /// The limit, shard and member of the state at `key` under `algorithm`; `None` if it is none.
    pub(crate) fn bucket_of(self, algorithm: Algorithm, key: &str) -> Option<(LimitName, u16, &str)> {
        let (name, _) = self.tagged(key)?.split_once(':')?;
        let name = LimitName::published(name).ok()?;
        let (shard, member) = self.state_of(&name, algorithm, key)?;
        Some((name, shard, member))
    }

    /// The rest of `key` after `topup:{`.
    fn tagged(self, key: &str) -> Option<&str> {
        key.strip_prefix(self.as_str())?.strip_prefix(":{")
    }
}
