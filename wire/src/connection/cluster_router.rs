//! The servers there are: one, or the nodes of a cluster, and what is known of who has what.

use std::{
    fmt,
    sync::{
        Arc,
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
    address::{self, Address},
    node::{Commands, Node},
    redirect::Redirect,
    topology::Topology,
};
use crate::hash_slot::HashSlot;

/// Who has what is read no more often than this: a hash slot that moved is known from the answer that says so, and until a
/// replica takes over for a node that is gone, every command to that node would ask anew.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// A node of a cluster that gives no answer for so long may have hung up without a word, and another one taken over. What
/// is on its way back from one that has lost its hash slots has as long to arrive.
pub(crate) const SLOW: Duration = Duration::from_secs(1);
/// So many nodes are asked at once, and the first answer counts: one that hangs holds nobody up.
const ASKED_AT_ONCE: usize = 3;

/// The servers there are. That they are a cluster is learned from the first answer that only a cluster gives, from a URL
/// that names several, or, since whoever is named first may have all that is asked for, by asking once.
pub(crate) struct ClusterRouter {
    named: Vec<Arc<Node>>,
    /// Who has what, once it is known that this is a cluster.
    topology: watch::Sender<Option<Arc<Topology>>>,
    is_cluster: AtomicBool,
    /// Whether they have been asked if they are.
    checked: AtomicBool,
    refreshing: AtomicU8,
    turn: AtomicUsize,
    runtime: Handle,
}

/// The patience of one who waits for an answer. Who leaves without has lost it.
struct SlowAnswer<'a>(&'a Arc<ClusterRouter>);

/// Whether who has what is being read.
const IDLE: u8 = 0;
const REFRESHING: u8 = 1;
/// And will be again, since something has happened meanwhile.
const REFRESHING_AGAIN: u8 = 2;

// === impl ClusterRouter ===

impl ClusterRouter {
    /// The servers that `url` names.
    pub(super) fn open(url: &str) -> RedisResult<Arc<Self>> {
        address::check(url)?;
        let named = address::servers(url)?.into_iter().map(|info| Node::new(info).map(Arc::new));
        Ok(Arc::new(Self {
            named: named.collect::<RedisResult<_>>()?,
            topology: watch::Sender::new(None),
            is_cluster: AtomicBool::new(false),
            checked: AtomicBool::new(false),
            refreshing: AtomicU8::new(IDLE),
            turn: AtomicUsize::new(0),
            runtime: Handle::current(),
        }))
    }

    /// The node to ask first.
    pub(crate) fn first(&self) -> &Arc<Node> {
        &self.named[0]
    }

    /// The node that has `hash slot`, in what is known to be a cluster.
    pub(crate) fn owner(&self, hash_slot: HashSlot) -> Option<Arc<Node>> {
        // Read first: this is on the way of every take.
        if !self.is_cluster.load(Relaxed) {
            return None;
        }
        let topology = self.topology.borrow();
        let topology = topology.as_ref()?;
        // One that has it not will say who has.
        Some(topology.owner(hash_slot).or(topology.nodes().first())?.clone())
    }

    /// The nodes of what is known to be a cluster.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.topology.borrow().as_ref().map_or_else(Vec::new, |topology| topology.nodes().to_vec())
    }

    /// Ready when what is known of the cluster has changed; with an error when there is nobody left to tell.
    pub(crate) fn changes(&self) -> watch::Receiver<impl Sized + use<>> {
        self.topology.subscribe()
    }

    /// The node to ask about `hash slot`, found out where the URL says that this is a cluster.
    pub(super) async fn node_for(&self, hash_slot: Option<HashSlot>) -> RedisResult<Arc<Node>> {
        if self.named.len() > 1 && !self.is_cluster.load(Relaxed) {
            self.refresh().await?;
        }
        Ok(self.owner(hash_slot.unwrap_or_default()).unwrap_or_else(|| self.first().clone()))
    }

    /// What `node` answers. Of one that has lost its hash slots meanwhile, none is waited for: a node that hangs may never give
    /// one, and another one has taken over.
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

    /// Learns from an error of `node`: what to do about it, if there is anything.
    pub(crate) fn note_error(self: &Arc<Self>, error: &RedisError, node: &Node) -> Option<Redirect> {
        let redirect = Redirect::read(error, node.address());
        match &redirect {
            Some(Redirect::Moved(hash_slot, address)) => self.note_moved(*hash_slot, address),
            Some(_) => {}
            None if error.is_io_error() || matches!(error.code(), Some("CLUSTERDOWN" | "MASTERDOWN")) => {
                self.refresh_soon();
            }
            None => {}
        }
        redirect
    }

    /// The node at `address`.
    pub(super) fn node_at(&self, address: &Address) -> RedisResult<Arc<Node>> {
        let known = self.topology.borrow().as_ref().and_then(|topology| topology.find(address).cloned());
        let known = known.or_else(|| self.named.iter().find(|node| node.address() == Some(address)).cloned());
        known.map_or_else(|| Node::new(address.like(self.first().info())).map(Arc::new), Ok)
    }

    /// Takes note that `hash slot` is at `address`.
    fn note_moved(self: &Arc<Self>, hash_slot: HashSlot, address: &Address) {
        if self.owner(hash_slot).is_some_and(|node| node.address() == Some(address)) {
            return;
        }
        let Ok(node) = self.node_at(address) else { return };
        self.topology.send_modify(|known| {
            let mut topology = known.as_deref().cloned().unwrap_or_else(Topology::unknown);
            topology.learn(hash_slot, node);
            *known = Some(Arc::new(topology));
        });
        self.is_cluster.store(true, Relaxed);
        self.refresh_soon();
    }

    /// Asks, behind the first answer there is, whether this is a cluster.
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

    /// Reads soon who has what in a cluster: something says that it is not as it was.
    pub(crate) fn refresh_soon(self: &Arc<Self>) {
        if !self.is_cluster.load(Relaxed) || self.refreshing.swap(REFRESHING_AGAIN, Relaxed) != IDLE {
            return;
        }
        let router = self.clone();
        self.runtime.spawn(async move {
            loop {
                router.refreshing.store(REFRESHING, Relaxed);
                // Whoever fails meanwhile has it read again.
                let _ = router.refresh().await;
                sleep(REFRESH_EVERY).await;
                if router.refreshing.compare_exchange(REFRESHING, IDLE, Relaxed, Relaxed).is_ok() {
                    return;
                }
            }
        });
    }

    /// Reads who has what: whether this is a cluster.
    pub(super) async fn refresh(&self) -> RedisResult<bool> {
        let mut nodes = self.nodes();
        for node in &self.named {
            if !nodes.iter().any(|known| Arc::ptr_eq(known, node)) {
                nodes.push(node.clone());
            }
        }
        // Not always the same ones first: they may be those that hang.
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

    /// Takes note of what `asked` says of who has what.
    fn note_topology(&self, answer: &Value, asked: &Node) -> RedisResult<()> {
        let mut found: Vec<Arc<Node>> = Vec::new();
        let topology = Topology::read(answer, asked.address(), |address| {
            if let Some(node) = found.iter().find(|node| node.address() == Some(&address)) {
                return Ok(node.clone());
            }
            let node = self.node_at(&address)?;
            found.push(node.clone());
            Ok(node)
        })?;
        // One that names nobody has just been started, or cut off.
        if !topology.nodes().is_empty() {
            self.topology.send_replace(Some(Arc::new(topology)));
            self.is_cluster.store(true, Relaxed);
        }
        Ok(())
    }
}

// === impl SlowAnswer ===

impl SlowAnswer<'_> {
    /// Never ends, and doubts more and more.
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

/// What `node` says of who has what.
async fn read_hash_slots(node: Arc<Node>) -> RedisResult<(Value, Arc<Node>)> {
    let mut command = Cmd::new();
    command.arg("CLUSTER").arg("SLOTS");
    let asked = timeout(CONNECT_TIMEOUT, node.ask(Commands::One(&command))).await;
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {CONNECT_TIMEOUT:?}")));
    let answer = asked.unwrap_or_else(|_| Err(late()))?.into_iter().next().unwrap_or(Value::Nil);
    Ok((answer.extract_error()?, node))
}

/// Whether a server refuses to tell of a cluster: it is in none, or may not tell this user, who then learns of it from its
/// other answers.
fn is_no_cluster(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

/// Of a URL that names several servers.
fn not_a_cluster(error: &RedisError) -> RedisError {
    let text = "the URL names several servers, and one says it is in no cluster";
    RedisError::from((ErrorKind::InvalidClientConfig, text, error.to_string()))
}

/// Of a command that its node may have carried out before it lost its hash slots.
pub(crate) fn node_replaced() -> RedisError {
    RedisError::from((ErrorKind::Io, "another node of the cluster has taken over"))
}
