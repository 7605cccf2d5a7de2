//! A lane to each server there is.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use tokio::{runtime::Handle, time::sleep};

use super::{Lane, Request};
use crate::{
    connection::{Address, Connection, Node, SLOW, Servers, superseded},
    slot::Slot,
};

/// Lanes to one server, or to each node of a cluster that has been asked for. They end when this is dropped.
pub struct Lanes<R: Request> {
    servers: Arc<Servers>,
    /// To the one server there is, or that was asked before it was known that there are more.
    first: Lane<R>,
    others: Arc<Others<R>>,
    runtime: Handle,
}

type Others<R> = RwLock<HashMap<Address, Arc<Lane<R>>>>;

// === impl Lanes ===

impl<R: Request> Lanes<R> {
    /// Lanes beside `connection`, to the same Redis.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn beside(connection: &Connection) -> Self {
        let (servers, runtime) = (connection.servers().clone(), Handle::current());
        let first = Lane::open(servers.first().clone(), servers.clone(), &runtime);
        let others = Arc::new(Others::default());
        runtime.spawn(tidy(Arc::downgrade(&others), Arc::downgrade(&servers)));
        Self { servers, first, others, runtime }
    }

    /// Asks the node that has `slot` with the next write.
    pub fn send(&self, slot: Slot, request: R) {
        self.with(slot, |lane| lane.send(request));
    }

    /// Asks the node that has `slot` with the next write that others make to it, or after 1 ms.
    pub fn send_soon(&self, slot: Slot, request: R) {
        self.with(slot, |lane| lane.send_soon(request));
    }

    /// Hands the lane to the node that has `slot` to `ask`.
    fn with(&self, slot: Slot, ask: impl FnOnce(&Lane<R>)) {
        let node = self.servers.owner(slot);
        match node.as_ref().and_then(|node| Some((node.address()?, node))) {
            Some((address, node)) => ask(&self.other(address, node)),
            None => ask(&self.first),
        }
    }

    fn other(&self, address: &Address, node: &Arc<Node>) -> Arc<Lane<R>> {
        if let Some(lane) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(address) {
            return lane.clone();
        }
        let open = || Arc::new(Lane::open(node.clone(), self.servers.clone(), &self.runtime));
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        others.entry(address.clone()).or_insert_with(open).clone()
    }
}

impl<R: Request> fmt::Debug for Lanes<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

/// Gives up the lanes to nodes that have lost their slots, until there are no lanes: one that hangs may never answer, and
/// another one has taken over.
async fn tidy<R: Request>(others: Weak<Others<R>>, servers: Weak<Servers>) {
    let Some(mut changes) = servers.upgrade().map(|servers| servers.watch()) else { return };
    while changes.changed().await.is_ok() {
        // What is on its way back has time to arrive.
        sleep(SLOW).await;
        changes.mark_unchanged();
        let (Some(others), Some(servers)) = (others.upgrade(), servers.upgrade()) else { return };
        let nodes = servers.nodes();
        let gone: Vec<_> = {
            let mut others = others.write().unwrap_or_else(PoisonError::into_inner);
            let lost = |address: &Address| !nodes.iter().any(|node| node.address() == Some(address));
            others.extract_if(|address, _| lost(address)).collect()
        };
        // Not under the lock: whoever is told may ask again.
        for (_, lane) in gone {
            lane.give_up(&superseded());
        }
    }
}
