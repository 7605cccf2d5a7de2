//! Commands to a node that may be replaced by another while it owes a reply.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use redis::{RedisResult, Value};
use tokio::time::sleep;

use super::{ClusterRouter, SLOW, node_replaced};
use crate::connection::{
    node::{Commands, Node},
    topology::Topology,
};

/// Refreshes the map while a command waits for its reply, and when the wait is given up.
struct SlowAnswer<'a>(&'a Arc<ClusterRouter>);

// === impl ClusterRouter ===

impl ClusterRouter {
    /// Sends commands to `node`, after `ASKING` if `asking` is set. Returns its replies.
    ///
    /// The wait ends with an error once another node has replaced this one and has all its hash slots. A node that
    /// hangs may never reply.
    pub(in crate::connection) async fn ask(
        self: &Arc<Self>,
        node: &Arc<Node>,
        commands: Commands<'_>,
        asking: bool,
    ) -> RedisResult<Vec<Value>> {
        let asked =
            async { if asking { node.ask_with_asking(commands).await } else { node.ask(commands).await } };
        let has = |topology: &Option<Arc<Topology>>| {
            topology
                .as_ref()
                .is_some_and(|topology| topology.nodes().iter().any(|one| Arc::ptr_eq(one, node)))
        };
        if !self.is_cluster.load(Relaxed) || !has(&self.topology.borrow()) {
            return asked.await;
        }
        let mut topology = self.topology.subscribe();
        let lost = async {
            let _ = topology.wait_for(|topology| !has(topology)).await;
            sleep(SLOW).await;
        };
        let slow = SlowAnswer(self);
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = lost => Err(node_replaced()),
            never = slow.refreshes() => never,
        };
        std::mem::forget(slow);
        answer
    }
}

// === impl SlowAnswer ===

impl SlowAnswer<'_> {
    /// Refreshes the map every second. Never ends.
    async fn refreshes<T>(&self) -> T {
        loop {
            sleep(SLOW).await;
            self.0.refresh_soon();
        }
    }
}

impl Drop for SlowAnswer<'_> {
    fn drop(&mut self) {
        self.0.refresh_soon();
    }
}
