//! Errors of nodes, and what they tell of the map: a hash slot is elsewhere, or a node is lost.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use redis::RedisError;

use super::ClusterRouter;
use crate::{
    connection::{address::Address, node::Node, redirect::Redirect, topology::Topology},
    hash_slot::HashSlot,
};

// === impl ClusterRouter ===

impl ClusterRouter {
    /// Notes an error of `node`, and refreshes the map if the error asks for that. Returns its redirection, if it has
    /// one.
    pub(crate) fn note_error(self: &Arc<Self>, error: &RedisError, node: &Node) -> Option<Redirect> {
        let redirect = Redirect::read(error, node.address());
        match &redirect {
            Some(Redirect::Moved(hash_slot, address)) => self.note_moved(*hash_slot, address),
            Some(_) => {}
            None if error.is_io_error()
                || matches!(error.code(), Some("CLUSTERDOWN" | "MASTERDOWN" | "READONLY")) =>
            {
                self.refresh_soon();
            }
            None => {}
        }
        redirect
    }

    /// The node at `address`.
    pub(in crate::connection) fn node_at(&self, address: &Address) -> Arc<Node> {
        let known = self.topology.borrow().as_ref().and_then(|topology| topology.find(address).cloned());
        let named = if self.has_sentinels() { &[] } else { &self.named[..] };
        let known = known.or_else(|| named.iter().find(|node| node.address() == Some(address)).cloned());
        known.unwrap_or_else(|| Arc::new(Node::new(self.first().endpoint().at(address))))
    }

    /// Notes that `hash_slot` is at `address`.
    fn note_moved(self: &Arc<Self>, hash_slot: HashSlot, address: &Address) {
        if self.owner(hash_slot).is_some_and(|node| node.address() == Some(address)) {
            return;
        }
        let node = self.node_at(address);
        self.topology.send_modify(|known| {
            let mut topology = known.as_deref().cloned().unwrap_or_else(Topology::unknown);
            topology.learn(hash_slot, node);
            *known = Some(Arc::new(topology));
        });
        self.is_cluster.store(true, Relaxed);
        self.refresh_soon();
    }
}
