//! Refreshes of the map: when it is read, and from which nodes.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{ClusterRouter, node_replaced};
use crate::connection::{
    CONNECT_TIMEOUT,
    node::{Commands, Node},
    sentinel::verify,
    topology::Topology,
};

/// Least time between two refreshes of the map. A redirection already tells where a moved hash slot is. And until a
/// replica replaces a lost node, every command to that node asks for a refresh.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// Nodes that are asked at once for the map. The first reply counts, so a node that hangs delays no one.
const ASKED_AT_ONCE: usize = 3;

/// States of a refresh: none is under way, as at first.
const IDLE: u8 = 0;
/// One is under way.
const REFRESHING: u8 = 1;
/// One is under way, and another one follows.
const REFRESHING_AGAIN: u8 = 2;

// === impl ClusterRouter ===

impl ClusterRouter {
    /// Asks the sentinels again and again for their master, from the first command on. In a failover by hand, the old
    /// master goes on for some seconds: so long, no two workers may disagree.
    pub(super) fn follow_master(self: &Arc<Self>) {
        let router = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                sleep(REFRESH_EVERY).await;
                let Some(router) = router.upgrade() else { return };
                if router.is_cluster.load(Relaxed) {
                    // Without sentinels, the last master stays.
                    let _ = router.refresh().await;
                }
            }
        });
    }

    /// Asks once, in the background, whether the servers are a cluster.
    pub(in crate::connection) fn check_for_cluster(self: &Arc<Self>) {
        if self.checked.load(Relaxed) || self.checked.swap(true, Relaxed) {
            return;
        }
        let router = self.clone();
        self.runtime.spawn(async move {
            if router.refresh().await.is_err() {
                router.checked.store(false, Relaxed);
            }
        });
    }

    /// Refreshes the map of a cluster in the background, since it may be out of date.
    pub(crate) fn refresh_soon(self: &Arc<Self>) {
        if !self.is_cluster.load(Relaxed) || self.refreshing.swap(REFRESHING_AGAIN, Relaxed) != IDLE {
            return;
        }
        let router = self.clone();
        self.runtime.spawn(async move {
            loop {
                router.refreshing.store(REFRESHING, Relaxed);
                // A command that fails meanwhile asks for another refresh.
                let _ = router.refresh().await;
                sleep(REFRESH_EVERY).await;
                if router.refreshing.compare_exchange(REFRESHING, IDLE, Relaxed, Relaxed).is_ok() {
                    return;
                }
            }
        });
    }

    /// Reads the map. Returns whether the servers have one: they are a cluster, or a master behind sentinels.
    pub(in crate::connection) async fn refresh(&self) -> RedisResult<bool> {
        if let Some(sentinels) = &self.sentinels {
            let master = self.node_at(&sentinels.address().await?);
            if !self.nodes().iter().any(|node| Arc::ptr_eq(node, &master)) {
                verify(&master).await?;
                self.topology.send_replace(Some(Arc::new(Topology::whole(master))));
                self.is_cluster.store(true, Relaxed);
            }
            return Ok(true);
        }
        let mut nodes = self.nodes();
        for node in &self.named {
            if !nodes.iter().any(|known| Arc::ptr_eq(known, node)) {
                nodes.push(node.clone());
            }
        }
        // The first nodes may hang, so each refresh begins with another one.
        let turn = self.turn.fetch_add(1, Relaxed) % nodes.len();
        nodes.rotate_left(turn);
        let mut failed = None;
        for some in nodes.chunks(ASKED_AT_ONCE) {
            let mut asked: JoinSet<_> = some.iter().cloned().map(read_hash_slots).collect();
            while let Some(told) = asked.join_next().await {
                match told.unwrap_or_else(|error| Err(RedisError::from(std::io::Error::other(error)))) {
                    Ok((answer, node)) => return self.note_topology(&answer, &node).map(|()| true),
                    Err(error) if self.named.len() == 1 && is_no_cluster(&error) => return Ok(false),
                    Err(error) if is_no_cluster(&error) => failed = Some(not_a_cluster(&error)),
                    Err(error) => failed = Some(error),
                }
            }
        }
        Err(failed.unwrap_or_else(node_replaced))
    }

    /// Stores the map as `asked` tells it.
    fn note_topology(&self, answer: &Value, asked: &Node) -> RedisResult<()> {
        let mut found: Vec<Arc<Node>> = Vec::new();
        let topology = Topology::read(answer, asked.address(), |address| {
            if let Some(node) = found.iter().find(|node| node.address() == Some(&address)) {
                return Ok(node.clone());
            }
            let node = self.node_at(&address);
            found.push(node.clone());
            Ok(node)
        })?;
        // A node that names no others has just been started, or is cut off.
        if !topology.nodes().is_empty() {
            self.topology.send_replace(Some(Arc::new(topology)));
            self.is_cluster.store(true, Relaxed);
        }
        Ok(())
    }
}

/// The map as `node` tells it.
async fn read_hash_slots(node: Arc<Node>) -> RedisResult<(Value, Arc<Node>)> {
    let mut command = Cmd::new();
    command.arg("CLUSTER").arg("SLOTS");
    let asked = timeout(CONNECT_TIMEOUT, node.ask(Commands::One(&command))).await;
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {CONNECT_TIMEOUT:?}")));
    let answer = asked.unwrap_or_else(|_| Err(late()))?.into_iter().next().unwrap_or(Value::Nil);
    Ok((answer.extract_error()?, node))
}

/// Whether a server refuses to tell the map. It is in no cluster, or this user may not ask; redirections tell that
/// user.
fn is_no_cluster(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

/// The error for a URL of several servers that are no cluster.
fn not_a_cluster(error: &RedisError) -> RedisError {
    let text = "the URL names several servers, and one says it is in no cluster";
    RedisError::from((ErrorKind::InvalidClientConfig, text, error.to_string()))
}
