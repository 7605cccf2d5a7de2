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
    node::{Node, Question},
    redirect::Redirect,
    topology::Topology,
};
use crate::slot::Slot;

/// Who has what is read no more often than this: a slot that moved is known from the answer that says so, and until a
/// replica takes over for a node that is gone, every command to that node would ask anew.
const READ_EVERY: Duration = Duration::from_millis(250);
/// A node of a cluster that gives no answer for so long may have hung up without a word, and another one taken over. What
/// is on its way back from one that has lost its slots has as long to arrive.
pub(crate) const SLOW: Duration = Duration::from_secs(1);
/// So many nodes are asked at once, and the first answer counts: one that hangs holds nobody up.
const ASKED_AT_ONCE: usize = 3;

/// The servers there are. That they are a cluster is learned from the first answer that only a cluster gives, from a URL
/// that names several, or, since whoever is named first may have all that is asked for, by asking once.
pub(crate) struct Servers {
    named: Vec<Arc<Node>>,
    /// Who has what, once it is known that this is a cluster.
    topology: watch::Sender<Option<Arc<Topology>>>,
    is_cluster: AtomicBool,
    /// Whether they have been asked if they are.
    introduced: AtomicBool,
    reading: AtomicU8,
    turn: AtomicUsize,
    runtime: Handle,
}

/// The patience of one who waits for an answer. Who leaves without has lost it.
struct Patience<'a>(&'a Arc<Servers>);

/// Whether who has what is being read.
const AT_REST: u8 = 0;
const READING: u8 = 1;
/// And will be again, since something has happened meanwhile.
const AGAIN: u8 = 2;

// === impl Servers ===

impl Servers {
    /// The servers that `url` names.
    pub(super) fn open(url: &str) -> RedisResult<Arc<Self>> {
        address::check(url)?;
        let named = address::servers(url)?.into_iter().map(|info| Node::new(info).map(Arc::new));
        Ok(Arc::new(Self {
            named: named.collect::<RedisResult<_>>()?,
            topology: watch::Sender::new(None),
            is_cluster: AtomicBool::new(false),
            introduced: AtomicBool::new(false),
            reading: AtomicU8::new(AT_REST),
            turn: AtomicUsize::new(0),
            runtime: Handle::current(),
        }))
    }

    /// The node to ask first.
    pub(crate) fn first(&self) -> &Arc<Node> {
        &self.named[0]
    }

    /// The node that has `slot`, in what is known to be a cluster.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Arc<Node>> {
        // Read first: this is on the way of every take.
        if !self.is_cluster.load(Relaxed) {
            return None;
        }
        let topology = self.topology.borrow();
        let topology = topology.as_ref()?;
        // One that has it not will say who has.
        Some(topology.owner(slot).or(topology.nodes().first())?.clone())
    }

    /// The nodes of what is known to be a cluster.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.topology.borrow().as_ref().map_or_else(Vec::new, |topology| topology.nodes().to_vec())
    }

    /// Ready when what is known of the cluster has changed; with an error when there is nobody left to tell.
    pub(crate) fn watch(&self) -> watch::Receiver<impl Sized + use<>> {
        self.topology.subscribe()
    }

    /// The node to ask about `slot`, found out where the URL says that this is a cluster.
    pub(super) async fn find(&self, slot: Option<Slot>) -> RedisResult<Arc<Node>> {
        if self.named.len() > 1 && !self.is_cluster.load(Relaxed) {
            self.read().await?;
        }
        Ok(self.owner(slot.unwrap_or_default()).unwrap_or_else(|| self.first().clone()))
    }

    /// What `node` answers. Of one that has lost its slots meanwhile, none is waited for: a node that hangs may never give
    /// one, and another one has taken over.
    pub(super) async fn ask(
        self: &Arc<Self>,
        node: &Arc<Node>,
        question: Question<'_>,
        anyway: bool,
    ) -> RedisResult<Vec<Value>> {
        let asked = async { if anyway { node.ask_anyway(question).await } else { node.ask(question).await } };
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
        let patience = Patience(self);
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = lost => Err(superseded()),
            never = patience.runs_out() => never,
        };
        std::mem::forget(patience);
        answer
    }

    /// Learns from an error of `node`: what to do about it, if there is anything.
    pub(crate) fn hear(self: &Arc<Self>, error: &RedisError, node: &Node) -> Option<Redirect> {
        let redirect = Redirect::read(error, node.address());
        match &redirect {
            Some(Redirect::Moved(slot, address)) => self.moved(*slot, address),
            Some(_) => {}
            None if error.is_io_error() || matches!(error.code(), Some("CLUSTERDOWN" | "MASTERDOWN")) => {
                self.doubt();
            }
            None => {}
        }
        redirect
    }

    /// The node at `address`.
    pub(super) fn at(&self, address: &Address) -> RedisResult<Arc<Node>> {
        let known = self.topology.borrow().as_ref().and_then(|topology| topology.find(address).cloned());
        let known = known.or_else(|| self.named.iter().find(|node| node.address() == Some(address)).cloned());
        known.map_or_else(|| Node::new(address.like(self.first().info())).map(Arc::new), Ok)
    }

    /// Takes note that `slot` is at `address`.
    fn moved(self: &Arc<Self>, slot: Slot, address: &Address) {
        if self.owner(slot).is_some_and(|node| node.address() == Some(address)) {
            return;
        }
        let Ok(node) = self.at(address) else { return };
        self.topology.send_modify(|known| {
            let mut topology = known.as_deref().cloned().unwrap_or_else(Topology::unknown);
            topology.learn(slot, node);
            *known = Some(Arc::new(topology));
        });
        self.is_cluster.store(true, Relaxed);
        self.doubt();
    }

    /// Asks, behind the first answer there is, whether this is a cluster.
    pub(super) fn introduce(self: &Arc<Self>) {
        if self.introduced.load(Relaxed) || self.introduced.swap(true, Relaxed) {
            return;
        }
        let servers = self.clone();
        self.runtime.spawn(async move {
            if servers.read().await.is_err() {
                servers.introduced.store(false, Relaxed);
            }
        });
    }

    /// Reads soon who has what in a cluster: something says that it is not as it was.
    pub(crate) fn doubt(self: &Arc<Self>) {
        if !self.is_cluster.load(Relaxed) || self.reading.swap(AGAIN, Relaxed) != AT_REST {
            return;
        }
        let servers = self.clone();
        self.runtime.spawn(async move {
            loop {
                servers.reading.store(READING, Relaxed);
                // Whoever fails meanwhile has it read again.
                let _ = servers.read().await;
                sleep(READ_EVERY).await;
                if servers.reading.compare_exchange(READING, AT_REST, Relaxed, Relaxed).is_ok() {
                    return;
                }
            }
        });
    }

    /// Reads who has what: whether this is a cluster.
    pub(super) async fn read(&self) -> RedisResult<bool> {
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
            let mut asked: JoinSet<_> = some.iter().cloned().map(slots_of).collect();
            while let Some(told) = asked.join_next().await {
                match told.unwrap_or_else(|error| Err(RedisError::from(std::io::Error::other(error)))) {
                    Ok((answer, node)) => return self.learn(&answer, &node).map(|()| true),
                    Err(error) if self.named.len() == 1 && is_alone(&error) => return Ok(false),
                    Err(error) if is_alone(&error) => failed = Some(no_cluster(&error)),
                    Err(error) => failed = Some(error),
                }
            }
        }
        Err(failed.unwrap_or_else(superseded))
    }

    /// Takes note of what `asked` says of who has what.
    fn learn(&self, answer: &Value, asked: &Node) -> RedisResult<()> {
        let mut found: Vec<Arc<Node>> = Vec::new();
        let topology = Topology::read(answer, asked.address(), |address| {
            if let Some(node) = found.iter().find(|node| node.address() == Some(&address)) {
                return Ok(node.clone());
            }
            let node = self.at(&address)?;
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

// === impl Patience ===

impl Patience<'_> {
    /// Never ends, and doubts more and more.
    async fn runs_out<T>(&self) -> T {
        loop {
            sleep(SLOW).await;
            self.0.doubt();
        }
    }
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        self.0.doubt();
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}

/// What `node` says of who has what.
async fn slots_of(node: Arc<Node>) -> RedisResult<(Value, Arc<Node>)> {
    let mut command = Cmd::new();
    command.arg("CLUSTER").arg("SLOTS");
    let asked = timeout(CONNECT_TIMEOUT, node.ask(Question::One(&command))).await;
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {CONNECT_TIMEOUT:?}")));
    let answer = asked.unwrap_or_else(|_| Err(late()))?.into_iter().next().unwrap_or(Value::Nil);
    Ok((answer.extract_error()?, node))
}

/// Whether a server refuses to tell of a cluster: it is in none, or may not tell this user, who then learns of it from its
/// other answers.
fn is_alone(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

/// Of a URL that names several servers.
fn no_cluster(error: &RedisError) -> RedisError {
    let text = "the URL names several servers, and one says it is in no cluster";
    RedisError::from((ErrorKind::InvalidClientConfig, text, error.to_string()))
}

/// Of a command that its node may have carried out before it lost its slots.
pub(crate) fn superseded() -> RedisError {
    RedisError::from((ErrorKind::Io, "another node of the cluster has taken over"))
}
