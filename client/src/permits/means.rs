//! Commands on the permits of a shard.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    scripts::{self, KeyPermits, PermitOperation, Permits},
};

use crate::shell::clock::Clock;

/// The longest time that a command waits for an answer, whatever the deadline: the next one may be renewed in time.
const LONGEST_CALL: Duration = Duration::from_secs(1);

/// The parts of a client that a shard's task needs. They do not keep the client alive.
pub(super) struct Means {
    pub(super) connection: Connection,
    pub(super) clock: Arc<Clock>,
    pub(super) deadline: Duration,
}

// === impl Means ===

impl Means {
    /// The reply of Redis; `None` without one within the deadline, or where the limit is not published.
    pub(super) async fn ask(
        &mut self,
        keys: &ShardKeys,
        operation: PermitOperation,
        permits: &[KeyPermits],
    ) -> Option<Permits> {
        let ask = scripts::permits(&mut self.connection, keys, operation, permits);
        let reply = self.clock.timeout(self.deadline.min(LONGEST_CALL), ask).await;
        reply.ok().and_then(Result::ok).filter(|reply| reply.ttl > 0)
    }
}

/// Ids by key, in the order of the keys.
pub(super) fn grouped<'p>(permits: impl Iterator<Item = (&'p String, &'p String)>) -> Vec<KeyPermits> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (member, id) in permits {
        groups.entry(member).or_default().push(id.clone());
    }
    groups.into_iter().map(|(member, ids)| KeyPermits { member: member.to_owned(), ids }).collect()
}

/// All ids, in the order of their states in a reply.
pub(super) fn ids(groups: &[KeyPermits]) -> impl Iterator<Item = &str> {
    groups.iter().flat_map(|group| group.ids.iter().map(String::as_str))
}
