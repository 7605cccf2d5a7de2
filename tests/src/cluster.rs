//! A Redis Cluster of a test's own.

use std::ops::RangeInclusive;

use redis::{Cmd, RedisResult};
use topup_embedded::RedisServer;
use topup_lab::ReservedPort;
use topup_wire::{
    keyspace::{ShardKeys, shard_of},
    limit::Shards,
    namespace::Namespace,
};

use crate::{Redis, SOON, eventually};

/// Hash slots of a cluster.
const HASH_SLOTS: u16 = 16_384;
/// The ms of silence after which the other nodes take a node for down. Less would do harm on a busy machine.
const NODE_TIMEOUT: &str = "1000";

/// A private cluster: masters that share all hash slots evenly, and perhaps replicas of some. A node that is down takes
/// only its own hash slots away.
#[derive(Debug)]
pub struct Cluster {
    /// The masters; replicas behind them.
    pub nodes: Vec<Node>,
    masters: usize,
}

/// One node.
#[derive(Debug)]
pub struct Node {
    /// The server, and a connection to it alone.
    pub redis: Redis,
    /// Its name in the cluster.
    pub id: String,
    /// The port for other nodes.
    bus: ReservedPort,
}

// === impl Cluster ===

impl Cluster {
    /// A cluster of so many masters.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start(masters: usize) -> Self {
        Self::with_replicas_of(masters, &[]).await
    }

    /// The same, with a replica of each of those masters.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn with_replicas_of(masters: usize, of: &[usize]) -> Self {
        let mut nodes = Vec::new();
        for number in 1..=masters + of.len() {
            let node = Node::start().await;
            // Two nodes with the same epoch would have to find that out first.
            node.redis.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &number.to_string()]).await;
            nodes.push(node);
        }
        let cluster = Self { nodes, masters };
        for (i, node) in cluster.masters().iter().enumerate() {
            let hash_slots: Vec<String> = cluster.share(i).map(|hash_slot| hash_slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(hash_slots.iter().map(String::as_str));
            node.redis.ask::<()>(&words.collect::<Vec<_>>()).await;
        }
        cluster.agree().await;
        for (replica, of) in cluster.nodes[masters..].iter().zip(of) {
            replica.redis.ask::<()>(&["CLUSTER", "REPLICATE", &cluster.nodes[*of].id]).await;
        }
        for replica in &cluster.nodes[masters..] {
            let linked = async || {
                let info = replica.redis.ask::<String>(&["INFO", "replication"]).await;
                if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
            };
            eventually(SOON, linked).await;
        }
        cluster.agree().await;
        cluster
    }

    /// Has `node` meet those that it does not know. A meeting that takes longer than the timeout of a node is forgotten,
    /// perhaps on one side only.
    async fn meet(&self, node: &Node) {
        let known = node.redis.ask::<String>(&["CLUSTER", "NODES"]).await;
        for other in self.nodes.iter().filter(|other| !known.contains(&other.id)) {
            let (port, bus) = (other.port().to_string(), other.bus.number().to_string());
            node.redis.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
    }

    /// Waits until every node knows all others, and that all hash slots are served.
    async fn agree(&self) {
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        for node in &self.nodes {
            let agreed = async || {
                let info = node.redis.ask::<String>(&["CLUSTER", "INFO"]).await;
                let well = ["cluster_state:ok", "cluster_slots_ok:16384", &known];
                if well.iter().all(|line| info.contains(line)) {
                    return Ok(());
                }
                if !info.contains(&known) {
                    self.meet(node).await;
                }
                Err(info)
            };
            eventually(SOON, agreed).await;
        }
    }

    /// Where a client is told to find it: one of its nodes.
    #[must_use]
    pub fn url(&self) -> &str {
        self.nodes[0].redis.url()
    }

    /// The nodes that have hash slots in the beginning.
    #[must_use]
    pub fn masters(&self) -> &[Node] {
        &self.nodes[..self.masters]
    }

    /// The master that has `key` in the beginning, by its place among them.
    pub async fn home(&self, key: &str) -> usize {
        let hash_slot = self.hash_slot(key).await;
        let home = (0..self.masters).find(|i| self.share(*i).contains(&hash_slot));
        home.expect("every hash slot has a master")
    }

    /// A key of `limit`, which has so many shards, whose bucket is on this master.
    ///
    /// # Panics
    /// When `limit` is no name, or `shards` no number of shards.
    pub async fn key_on(&self, master: usize, limit: &str, shards: u64) -> String {
        let (limit, shards) =
            (limit.parse().expect("a name"), Shards::new(shards).expect("a number of shards"));
        let mut keys = (0_u32..).map(|number| number.to_string());
        loop {
            let key = keys.next().expect("a key without end");
            let record = ShardKeys::new(Namespace::default(), &limit, shard_of(&key, shards)).record;
            if self.home(&record).await == master {
                return key;
            }
        }
    }

    /// The hash slot of `key`.
    pub async fn hash_slot(&self, key: &str) -> u16 {
        self.nodes[0].redis.ask(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// The keys that match `pattern`, on all masters.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        for node in self.masters() {
            keys.extend(node.redis.ask::<Vec<String>>(&["KEYS", pattern]).await);
        }
        keys
    }

    /// Begins to move `hash_slot` from one master to another: its keys are still where they were.
    pub async fn begin_to_move(&self, hash_slot: u16, from: usize, to: usize) {
        let (hash_slot, [from, to]) = (hash_slot.to_string(), [&self.nodes[from], &self.nodes[to]]);
        // Word of an earlier move may still be on its way between the masters.
        let accepts = async |node: &Node, state: &str, other: &Node| {
            let mut command = Cmd::new();
            command.arg(&["CLUSTER", "SETSLOT", &hash_slot, state, &other.id]);
            let told: RedisResult<()> = command.query_async(&mut node.redis.connection()).await;
            told.map_err(|error| error.to_string())
        };
        eventually(SOON, async || accepts(to, "IMPORTING", from).await).await;
        eventually(SOON, async || accepts(from, "MIGRATING", to).await).await;
    }

    /// Moves these keys, whose hash slot is on its way.
    pub async fn move_keys(&self, keys: &[String], from: usize, to: usize) {
        let port = self.nodes[to].port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        let words: Vec<&str> = words.into_iter().chain(keys.iter().map(String::as_str)).collect();
        self.nodes[from].redis.ask::<String>(&words).await;
    }

    /// Moves all hash slots of a master to another.
    pub async fn move_all(&self, from: usize, to: usize) {
        let hash_slots: Vec<String> = self.share(from).map(|hash_slot| hash_slot.to_string()).collect();
        let count = hash_slots.iter().map(|hash_slot| ["CLUSTER", "COUNTKEYSINSLOT", hash_slot]);
        let keys: Vec<u64> = self.nodes[from].redis.ask_all(count).await;
        let (empty, full): (Vec<_>, Vec<_>) = hash_slots.iter().zip(keys).partition(|(_, keys)| *keys == 0);
        for node in self.told_in_turn(from, to) {
            let id = &self.nodes[to].id;
            let words = empty.iter().map(|(hash_slot, _)| ["CLUSTER", "SETSLOT", hash_slot, "NODE", id]);
            self.nodes[node].redis.ask_all::<String, 5>(words).await;
        }
        // Hash slots with keys come last. A client that is redirected then reads a map in which all others have moved.
        for hash_slot in full.iter().map(|(hash_slot, _)| hash_slot.parse().expect("a hash slot")) {
            self.begin_to_move(hash_slot, from, to).await;
            self.end_the_move(hash_slot, from, to).await;
        }
    }

    /// The masters in the order in which they hear of a move: first those two. In between, keys are with nobody else.
    fn told_in_turn(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        [to, from].into_iter().chain((0..self.masters).filter(move |node| ![from, to].contains(node)))
    }

    /// Moves all keys of a hash slot that is on its way, and tells all masters.
    pub async fn end_the_move(&self, hash_slot: u16, from: usize, to: usize) {
        let number = hash_slot.to_string();
        loop {
            let listed = ["CLUSTER", "GETKEYSINSLOT", &number, "100"];
            let keys: Vec<String> = self.nodes[from].redis.ask(&listed).await;
            if keys.is_empty() {
                break;
            }
            self.move_keys(&keys, from, to).await;
        }
        let id = &self.nodes[to].id;
        for node in self.told_in_turn(from, to) {
            self.nodes[node].redis.ask::<()>(&["CLUSTER", "SETSLOT", &number, "NODE", id]).await;
        }
        self.know_the_move(hash_slot, from, to).await;
    }

    /// Waits until all masters know the last move and its epoch. One that takes a hash slot without that knowledge may take it
    /// under the same epoch as another, and lose it by an earlier word. All are told once more then.
    async fn know_the_move(&self, hash_slot: u16, from: usize, to: usize) {
        let (number, id) = (hash_slot.to_string(), &self.nodes[to].id);
        eventually(SOON, async || {
            let (mut epochs, mut agree) = (Vec::new(), true);
            for node in self.masters() {
                let info = node.redis.ask::<String>(&["CLUSTER", "INFO"]).await;
                let epoch = info.lines().find(|line| line.starts_with("cluster_current_epoch:"));
                epochs.push(epoch.expect("every node has one").to_owned());
                let nodes = node.redis.ask::<String>(&["CLUSTER", "NODES"]).await;
                agree &= owner(&nodes, hash_slot) == Some(id);
            }
            if !agree {
                for node in self.told_in_turn(from, to) {
                    let mut command = Cmd::new();
                    command.arg(&["CLUSTER", "SETSLOT", &number, "NODE", id]);
                    // The next look tells whether it knows.
                    let _: RedisResult<()> =
                        command.query_async(&mut self.nodes[node].redis.connection()).await;
                }
            }
            agree && epochs.iter().all(|epoch| *epoch == epochs[0])
        })
        .await;
    }

    fn share(&self, master: usize) -> RangeInclusive<u16> {
        let bound = |i: usize| (usize::from(HASH_SLOTS) * i / self.masters) as u16;
        bound(master)..=bound(master + 1) - 1
    }
}

/// The id of the master that has `hash_slot`, by the text of `CLUSTER NODES`.
fn owner(nodes: &str, hash_slot: u16) -> Option<&str> {
    let has = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
        bounds.is_some_and(|(first, last)| (first..=last).contains(&hash_slot))
    };
    // Eight fields stand before the ranges.
    let line = nodes.lines().find(|line| line.split(' ').skip(8).any(has))?;
    line.split(' ').next()
}

// === impl Node ===

impl Node {
    async fn start() -> Self {
        // Its port for other nodes would be its own and 10,000, which may be none.
        let bus = ReservedPort::reserve().expect("a free port");
        let server = RedisServer::builder()
            .tcp()
            .arg("--cluster-enabled", "yes")
            .arg("--cluster-port", bus.number().to_string())
            .arg("--cluster-node-timeout", NODE_TIMEOUT)
            .arg("--cluster-require-full-coverage", "no")
            .arg("--cluster-allow-replica-migration", "no")
            .arg("--repl-diskless-sync-delay", "0");
        let redis = Redis::with(server).await;
        let id = redis.ask(&["CLUSTER", "MYID"]).await;
        Self { redis, id, bus }
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.redis.url().trim_end_matches('/').rsplit(':').next().expect("a URL has a port");
        port.parse().expect("a port is a number")
    }
}
