//! The map from hash slots to the nodes of a cluster, or to the one server.

mod redirected;
mod refresh;
mod replaced;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::{ErrorKind, RedisError, RedisResult};
use tokio::{runtime::Handle, sync::watch};

use super::{
    address::{self, Endpoint},
    node::Node,
    sentinel::{SentinelUrl, Sentinels},
    topology::Topology,
};
use crate::hash_slot::HashSlot;

/// A node that replies to nothing for so long may have been replaced, so the map is refreshed. Replies of a node that
/// has lost its hash slots have as long to arrive.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// Finds the node of a hash slot, on one server or in a cluster.
///
/// The servers are a cluster if the URL names several, or if one redirects. They are one, too, if a server says so in
/// reply to a question after the first command. The question is needed where the first server has all keys that are used.
///
/// Behind sentinels, the map has one node, their master. It is refreshed as that of a cluster is, and four times a
/// second: a master that was demoted or cut off may still answer.
pub(crate) struct ClusterRouter {
    /// The servers of the URL, or one that stands for the master before the sentinels have told it.
    named: Vec<Arc<Node>>,
    sentinels: Option<Sentinels>,
    /// The map; `None` until the servers are known to be a cluster.
    topology: watch::Sender<Option<Arc<Topology>>>,
    is_cluster: AtomicBool,
    /// Whether the servers have been asked if they are a cluster.
    checked: AtomicBool,
    /// The user may not write what daemons publish.
    least_rights: AtomicBool,
    refreshing: AtomicU8,
    turn: AtomicUsize,
    runtime: Handle,
}

// === impl ClusterRouter ===

impl ClusterRouter {
    /// The servers that `url` names.
    pub(super) fn open(url: &str) -> RedisResult<Arc<Self>> {
        let sentinels = SentinelUrl::parse(url)?.map(Sentinels::open);
        let named = match &sentinels {
            Some(sentinels) => vec![sentinels.master().clone()],
            None => {
                address::check(url)?;
                address::servers(url)?
            }
        };
        let router = Self::of(named, sentinels);
        if router.has_sentinels() {
            router.follow_master();
        }
        Ok(router)
    }

    /// One server in this process.
    #[cfg(feature = "in-memory")]
    pub(super) fn of_memory(redis: crate::in_memory::InMemoryRedis) -> Arc<Self> {
        Self::of(vec![Endpoint::of_memory(redis)], None)
    }

    fn of(named: Vec<Endpoint>, sentinels: Option<Sentinels>) -> Arc<Self> {
        Arc::new(Self {
            named: named.into_iter().map(|endpoint| Arc::new(Node::new(endpoint))).collect(),
            topology: watch::Sender::new(None),
            is_cluster: AtomicBool::new(false),
            checked: AtomicBool::new(sentinels.is_some()),
            sentinels,
            least_rights: AtomicBool::new(false),
            refreshing: AtomicU8::default(),
            turn: AtomicUsize::new(0),
            runtime: Handle::current(),
        })
    }

    /// Whether the URL names sentinels.
    pub(super) fn has_sentinels(&self) -> bool {
        self.sentinels.is_some()
    }

    /// Makes sure that commands may go to `node`.
    ///
    /// # Errors
    /// Behind sentinels, the first server of the URL only stands for the master. Its commands get an error that sends
    /// them to the master, or the reason why the master is unknown.
    pub(crate) async fn check_node(&self, node: &Arc<Node>) -> RedisResult<()> {
        if !self.has_sentinels() || !Arc::ptr_eq(node, self.first()) {
            return Ok(());
        }
        self.refresh().await?;
        Err(redis::make_extension_error("TRYAGAIN".to_owned(), Some("the master is known now".to_owned())))
    }

    /// The first server of the URL.
    pub(crate) fn first(&self) -> &Arc<Node> {
        &self.named[0]
    }

    /// Whether the servers are known to be a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.is_cluster.load(Relaxed)
    }

    /// The node of `hash_slot`; `None` unless the servers are known to be a cluster.
    pub(crate) fn owner(&self, hash_slot: HashSlot) -> Option<Arc<Node>> {
        // Every take comes here, and this flag is cheaper to read than the map.
        if !self.is_cluster.load(Relaxed) {
            return None;
        }
        let topology = self.topology.borrow();
        let topology = topology.as_ref()?;
        // Any node redirects to the right one.
        Some(topology.owner(hash_slot).or(topology.nodes().first())?.clone())
    }

    /// Whether the user may not write what daemons publish, as far as is known.
    pub(crate) fn has_least_rights(&self) -> bool {
        self.least_rights.load(Relaxed)
    }

    /// Notes that the user may not write what daemons publish.
    pub(super) fn note_least_rights(&self) {
        self.least_rights.store(true, Relaxed);
    }

    /// The nodes of the map; none unless the servers are known to be a cluster.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.topology.borrow().as_ref().map_or_else(Vec::new, |topology| topology.nodes().to_vec())
    }

    /// A receiver that is notified when the map changes.
    pub(crate) fn changes(&self) -> watch::Receiver<impl Sized + use<>> {
        self.topology.subscribe()
    }

    /// The node of `hash_slot`. Reads the map first where the URL names several servers.
    pub(super) async fn node_for(&self, hash_slot: Option<HashSlot>) -> RedisResult<Arc<Node>> {
        if (self.named.len() > 1 || self.has_sentinels()) && !self.is_cluster.load(Relaxed) {
            self.refresh().await?;
        }
        Ok(self.owner(hash_slot.unwrap_or_default()).unwrap_or_else(|| self.first().clone()))
    }
}

impl fmt::Debug for ClusterRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterRouter").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}

/// The error of a command whose node lost its hash slots. The node may have carried it out before.
pub(crate) fn node_replaced() -> RedisError {
    RedisError::from((ErrorKind::Io, "another node has taken over"))
}
