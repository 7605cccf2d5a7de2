//! The map from hash slots to the nodes of a cluster, or to the one server.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    CONNECT_TIMEOUT,
    address::{self, Address, Endpoint},
    node::{Commands, Node},
    redirect::Redirect,
    sentinel::{SentinelUrl, Sentinels, verify},
    topology::Topology,
};
use crate::hash_slot::HashSlot;

/// Least time between two refreshes of the map. A redirection already tells where a moved hash slot is. And until a
/// replica replaces a lost node, every command to that node asks for a refresh.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// A node that replies to nothing for so long may have been replaced, so the map is refreshed. Replies of a node that
/// has lost its hash slots have as long to arrive.
pub(crate) const SLOW: Duration = Duration::from_secs(1);
/// Nodes that are asked at once for the map. The first reply counts, so a node that hangs delays no one.
const ASKED_AT_ONCE: usize = 3;

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

/// Refreshes the map while a command waits for its reply, and when the wait is given up.
struct SlowAnswer<'a>(&'a Arc<ClusterRouter>);

/// States of a refresh: none is under way.
const IDLE: u8 = 0;
/// One is under way.
const REFRESHING: u8 = 1;
/// One is under way, and another one follows.
const REFRESHING_AGAIN: u8 = 2;

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
            router.runtime.spawn(follow_master(Arc::downgrade(&router)));
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
            refreshing: AtomicU8::new(IDLE),
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

    /// Sends commands to `node`, after `ASKING` if `asking` is set. Returns its replies.
    ///
    /// The wait ends with an error once another node has replaced this one and has all its hash slots. A node that hangs may
    /// never reply.
    pub(super) async fn ask(
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
    pub(super) fn node_at(&self, address: &Address) -> Arc<Node> {
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

    /// Asks once, in the background, whether the servers are a cluster.
    pub(super) fn check_for_cluster(self: &Arc<Self>) {
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
    pub(super) async fn refresh(&self) -> RedisResult<bool> {
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

impl fmt::Debug for ClusterRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterRouter").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}

/// Asks the sentinels again and again for their master, from the first command on. In a failover by hand, the old master
/// goes on for some seconds: so long, no two workers may disagree.
async fn follow_master(router: Weak<ClusterRouter>) {
    loop {
        sleep(REFRESH_EVERY).await;
        let Some(router) = router.upgrade() else { return };
        if router.is_cluster.load(Relaxed) {
            // Without sentinels, the last master stays.
            let _ = router.refresh().await;
        }
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

/// The error of a command whose node lost its hash slots. The node may have carried it out before.
pub(crate) fn node_replaced() -> RedisError {
    RedisError::from((ErrorKind::Io, "another node has taken over"))
}
