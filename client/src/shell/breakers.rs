//! Circuit breakers, one for each node of Redis that has left a call without a reply.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::RedisResult;
use topup_wire::{
    connection::{Address, Connection, is_transient},
    keyspace::ShardKeys,
    scripts,
};

use super::{BucketEntry, Handle, Shared};
use crate::{
    error::Error,
    outage::{Breaker, PROBE_EVERY},
};

/// The longest time that a probe waits for a reply, whatever the deadline.
const LONGEST_PROBE: Duration = Duration::from_secs(1);

/// Most probes that find a Redis without limits. It has lost its data, and a daemon is about to publish. Charges for local
/// buckets would find no buckets yet.
const MOST_EMPTY: u32 = 20;

/// A node of a cluster, or the one server.
type Node = Option<Address>;

/// The breakers of nodes that have left a call without a reply lately.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    any_open: AtomicBool,
    by_node: Mutex<HashMap<Node, Breaker>>,
}

// === impl Breakers ===

impl Breakers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Node, Breaker>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a node has left the last call to it without a reply.
    pub(super) fn any_in_doubt(&self) -> bool {
        self.lock().values().any(Breaker::is_in_doubt)
    }

    fn is_open(&self, node: &Node) -> bool {
        self.lock().get(node).is_some_and(Breaker::is_open)
    }

    /// Records the end of a probe. Returns whether another one follows.
    fn probed(&self, node: &Node, answered: bool, now: u64) -> bool {
        let mut by_node = self.lock();
        let again = by_node.get_mut(node).is_some_and(|breaker| breaker.probed(answered, now));
        self.any_open.store(by_node.values().any(Breaker::is_open), Relaxed);
        again
    }
}

// === impl Handle ===

impl Handle {
    /// An error if the node of the bucket has left the last calls without a reply.
    #[inline]
    pub(crate) fn check_circuit(&self, entry: &BucketEntry) -> Result<(), Error> {
        if self.shared().breakers.any_open.load(Relaxed) { self.check_node(entry) } else { Ok(()) }
    }

    #[cold]
    fn check_node(&self, entry: &BucketEntry) -> Result<(), Error> {
        let shared = self.shared();
        let node = shared.connection.node_of(entry.shard_keys(self).hash_slot);
        if shared.breakers.is_open(&node) { Err(Error::CircuitOpen) } else { Ok(()) }
    }

    /// Has a probe ask the bucket's node, if `result` had no reply from it.
    pub(crate) fn note_reply<T>(&self, entry: &BucketEntry, result: &Result<T, Error>) {
        if !result.as_ref().is_err_and(Error::has_no_reply) {
            return;
        }
        let (shared, keys) = (self.shared(), entry.shard_keys(self));
        let node = shared.connection.node_of(keys.hash_slot);
        if shared.breakers.lock().entry(node.clone()).or_default().failed(shared.clock.now()) {
            shared.runtime.spawn(probe(self.downgrade(), node, keys));
        }
    }
}

/// Asks `node` until it replies, one probe at a time. After an open time, charges for what local buckets have spent.
async fn probe(shared: Weak<Shared>, node: Node, keys: ShardKeys) {
    let mut empty = 0;
    loop {
        let Some(client) = shared.upgrade() else { return };
        let (mut connection, longest) = (client.connection(), client.deadline.min(LONGEST_PROBE));
        let clock = client.clock.clone();
        let was_open = client.breakers.is_open(&node);
        drop(client);
        let reply = clock.timeout(longest, ask(&mut connection, &keys)).await;
        let is_empty = matches!(reply, Ok(Ok(false)));
        empty += u32::from(is_empty);
        let answered = match reply {
            Ok(Ok(_)) => !is_empty || !was_open || empty > MOST_EMPTY,
            // Calls get an error that does not pass, too: a wrong password, a record of another version.
            Ok(Err(error)) => !is_transient(&error),
            Err(_) => false,
        };
        let Some(client) = shared.upgrade().map(Handle::of) else { return };
        // In a cluster, another node may have the bucket by now.
        let is_back = |entry: &BucketEntry| {
            let owner = client.shared().connection.node_of(entry.shard_keys(&client).hash_slot);
            owner == node || !client.shared().breakers.is_open(&owner)
        };
        if answered && was_open {
            client.charge_local_buckets(is_back).await;
        }
        let now = client.shared().clock.now();
        let again = client.shared().breakers.probed(&node, answered, now);
        if answered && was_open {
            // Takes of the time in which the first charges were made.
            client.charge_local_buckets(is_back).await;
            client.shared().local_buckets.forget(is_back);
        }
        drop(client);
        if !again {
            return;
        }
        clock.sleep(Duration::from_micros(PROBE_EVERY)).await;
    }
}

/// Whether any limit is published.
async fn ask(connection: &mut Connection, keys: &ShardKeys) -> RedisResult<bool> {
    let has_record = scripts::algorithm_of(connection, keys).await?.is_some();
    Ok(has_record || scripts::generation(connection).await?.is_some())
}
