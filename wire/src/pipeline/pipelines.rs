//! Pipelines to all nodes.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use tokio::{runtime::Handle, time::sleep};

use super::{Later, Pipeline, Request};
use crate::{
    connection::{Address, ClusterRouter, Connection, Node, SLOW, node_replaced},
    hash_slot::HashSlot,
};

/// Pipelines to one server, or to the nodes of a cluster. Each opens at its first request. They end when this is
/// dropped.
pub struct Pipelines<R: Request> {
    router: Arc<ClusterRouter>,
    /// To the first server of the URL: the only one, or used until the cluster is known.
    first: Pipeline<R>,
    others: Arc<Others<R>>,
    runtime: Handle,
}

type Others<R> = RwLock<HashMap<Address, Arc<Pipeline<R>>>>;

// === impl Pipelines ===

impl<R: Request> Pipelines<R> {
    /// Pipelines to the Redis of `connection`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn beside(connection: &Connection) -> Self {
        let (router, runtime) = (connection.router().clone(), Handle::current());
        let first = Pipeline::open(router.first().clone(), router.clone(), &runtime);
        let others = Arc::new(Others::default());
        runtime.spawn(close_unused(Arc::downgrade(&others), Arc::downgrade(&router)));
        Self { router, first, others, runtime }
    }

    /// Whether the user may not write what daemons publish, as far as is known: scripts then take records as arguments.
    pub fn has_least_rights(&self) -> bool {
        self.router.has_least_rights()
    }

    /// Whether the keys of a command must have one hash slot, as far as is known.
    pub fn is_cluster(&self) -> bool {
        self.router.is_cluster()
    }

    /// Sends a request to the node of `hash_slot` with the next write.
    pub fn send(&self, hash_slot: HashSlot, request: R) {
        self.with(hash_slot, |pipeline| pipeline.send(request));
    }

    /// Sends a request to the node of `hash_slot` with the next write of others, or after 1 ms.
    pub fn send_soon(&self, hash_slot: HashSlot, request: R) {
        self.with(hash_slot, |pipeline| pipeline.send_soon(request));
    }

    /// Calls `later` after the next write to the node of `hash_slot`, so that it is done while Redis works. Soon, if nothing
    /// is to be written; at once without a connection, or while a write has to wait.
    pub fn after_write(&self, hash_slot: HashSlot, later: Later) {
        self.with(hash_slot, |pipeline| pipeline.after_write(later));
    }

    /// Calls `ask` with the pipeline to the node of `hash_slot`.
    fn with(&self, hash_slot: HashSlot, ask: impl FnOnce(&Pipeline<R>)) {
        let node = self.router.owner(hash_slot);
        match node.as_ref().and_then(|node| Some((node.address()?, node))) {
            Some((address, node)) => ask(&self.other(address, node)),
            None => ask(&self.first),
        }
    }

    fn other(&self, address: &Address, node: &Arc<Node>) -> Arc<Pipeline<R>> {
        if let Some(pipeline) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(address) {
            return pipeline.clone();
        }
        let open = || Arc::new(Pipeline::open(node.clone(), self.router.clone(), &self.runtime));
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        others.entry(address.clone()).or_insert_with(open).clone()
    }
}

impl<R: Request> fmt::Debug for Pipelines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipelines").finish_non_exhaustive()
    }
}

/// Closes pipelines to nodes that have lost their hash slots. Such a node may hang and never reply, while another one
/// has replaced it.
async fn close_unused<R: Request>(others: Weak<Others<R>>, router: Weak<ClusterRouter>) {
    let Some(mut changes) = router.upgrade().map(|router| router.changes()) else { return };
    while changes.changed().await.is_ok() {
        // Replies on their way have time to arrive.
        sleep(SLOW).await;
        changes.mark_unchanged();
        let (Some(others), Some(router)) = (others.upgrade(), router.upgrade()) else { return };
        let nodes = router.nodes();
        let gone: Vec<_> = {
            let mut others = others.write().unwrap_or_else(PoisonError::into_inner);
            let lost = |address: &Address| !nodes.iter().any(|node| node.address() == Some(address));
            others.extract_if(|address, _| lost(address)).collect()
        };
        // Without the lock: a completed request may send another one.
        for (_, pipeline) in gone {
            pipeline.close(&node_replaced());
        }
    }
}
