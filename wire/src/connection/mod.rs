//! The way to Redis: to one server, or to whichever node of a cluster has the keys.

mod address;
mod cluster_router;
mod node;
mod redirect;
mod topology;

use std::{fmt, sync::Arc, time::Duration};

use redis::{
    Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value, aio::ConnectionLike,
};
use tokio::time::sleep;

pub use address::{Address, check};
pub(crate) use cluster_router::{ClusterRouter, SLOW, node_replaced};
use node::Commands;
pub(crate) use node::Node;
pub use redirect::is_elsewhere;
use redirect::{Redirect, error_in};

use crate::hash_slot::HashSlot;

/// The longest one attempt to connect may take.
///
/// A host that answers at all does so within a few round trips; a second also covers a lost packet.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection on which nothing has been acknowledged for this long is given up and made anew: a host that vanished
/// without a word is noticed within it, as something is asked at least every second.
#[cfg(target_os = "linux")]
pub(crate) const VANISHED: Duration = Duration::from_secs(5);

/// A command is sent on to another node so often at most: more often, and the nodes do not agree on who has its keys.
const MOST_REDIRECTS: u32 = 5;

/// Between asking for keys that are being moved and asking again: the first time, then twice as long each time, to the
/// longest: 1.3 s in all, for those whose deadline is later.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(640));

/// The way to Redis, shared by many tasks: commands of all are pipelined, each server's connection is made at its first
/// command, and comes back by itself.
///
/// Whether there is one server or a cluster nobody needs to know. A command goes to the node that has its keys, which must
/// be in one hash slot, and one without keys (`SCRIPT LOAD`) where the one before it went. A node that has not got the keys says
/// who has; nothing was done then, and that one is asked. Nothing else is ever sent twice.
#[derive(Clone)]
pub struct Connection {
    router: Arc<ClusterRouter>,
    /// Who was asked last.
    last: Option<Arc<Node>>,
}

/// The way to the Redis at `url`: `redis://`, `unix://`, or several nodes of a cluster, `redis://host:port,host:port`.
///
/// Commands have no time limit of their own: whoever waits for one sets a deadline.
///
/// # Errors
/// When `url` is not one of a Redis server.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect_lazily(url: &str) -> RedisResult<Connection> {
    Ok(Connection { router: ClusterRouter::open(url)?, last: None })
}

// === impl Connection ===

impl Connection {
    /// The node that has `hash slot`; `None` of one server, or as long as it is not known that there are more.
    pub fn node_of(&self, hash_slot: HashSlot) -> Option<Address> {
        self.router.owner(hash_slot)?.address().cloned()
    }

    /// A connection for each part of the keyspace, which has commands without keys (`SCAN`) answered by that one.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn each_node(&self) -> RedisResult<Vec<Self>> {
        if self.router.nodes().is_empty() && !self.router.refresh().await? {
            return Ok(vec![self.clone()]);
        }
        let nodes = self.router.nodes().into_iter();
        Ok(nodes.map(|node| Self { router: self.router.clone(), last: Some(node) }).collect())
    }

    pub(crate) fn router(&self) -> &Arc<ClusterRouter> {
        &self.router
    }

    async fn ask(&mut self, commands: Commands<'_>, hash_slot: Option<HashSlot>) -> RedisResult<Vec<Value>> {
        let mut node = match (hash_slot, &self.last) {
            (None, Some(last)) => last.clone(),
            _ => self.router.node_for(hash_slot).await?,
        };
        let (mut asking, mut redirects, mut pause) = (false, 0, PAUSE.0);
        loop {
            let answer = self.router.ask(&node, commands, asking).await;
            self.last = Some(node.clone());
            let Some(error) = refusal(&answer) else {
                self.router.check_for_cluster();
                return answer;
            };
            match self.router.note_error(&error, &node) {
                Some(Redirect::Moved(_, address)) if redirects < MOST_REDIRECTS => {
                    (node, asking) = (self.router.node_at(&address)?, false);
                }
                Some(Redirect::Ask(address)) if redirects < MOST_REDIRECTS => {
                    (node, asking) = (self.router.node_at(&address)?, true);
                }
                Some(Redirect::Later) if pause <= PAUSE.1 => {
                    sleep(pause).await;
                    (node, asking, redirects) = (self.router.node_for(hash_slot).await?, false, 0);
                    pause *= 2;
                    continue;
                }
                _ => return answer,
            }
            redirects += 1;
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let hash_slot = key_of(cmd).map(HashSlot::of);
            let mut answers = self.ask(Commands::One(cmd), hash_slot).await?;
            answers.pop().ok_or_else(|| RedisError::from((ErrorKind::Client, "no answer to a command")))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let hash_slot = pipeline.cmd_iter().find_map(key_of).map(HashSlot::of);
            self.ask(Commands::Many(pipeline, offset, count), hash_slot).await
        })
    }

    fn get_db(&self) -> i64 {
        self.router.first().db()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// The first key of a command, if it has any.
fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().filter_map(|word| match word {
        Arg::Simple(word) => Some(word),
        _ => None,
    });
    match words.next()?.to_ascii_uppercase().as_slice() {
        // Behind the script and the number of keys.
        b"EVALSHA" | b"EVAL" => words.nth(1).filter(|keys| *keys != b"0").and(words.next()),
        b"SCAN" | b"SCRIPT" | b"CLUSTER" | b"COMMAND" | b"CONFIG" | b"INFO" | b"TIME" | b"PING"
        | b"DBSIZE" => None,
        _ => words.next(),
    }
}

/// Why nothing was done of what was asked, if that is so: the error of all answers.
fn refusal(answer: &RedisResult<Vec<Value>>) -> Option<RedisError> {
    match answer {
        Err(error) => Some(error.clone()),
        Ok(answers) => {
            let mut errors = answers.iter().map(error_in);
            let first = RedisError::from(errors.next()??);
            errors.all(|error| error.is_some_and(|error| is_elsewhere(&error.into()))).then_some(first)
        }
    }
}

/// Whether the same request may succeed later, as it is: Redis was away, starting, failing over or out of memory.
pub fn is_transient(error: &RedisError) -> bool {
    let passing = |code: &str| {
        matches!(
            code,
            "LOADING"
                | "BUSY"
                | "MASTERDOWN"
                | "READONLY"
                | "CLUSTERDOWN"
                | "OOM"
                | "NOREPLICAS"
                | "MISCONF"
                | "UNBLOCKED"
                | "NOSCRIPT"
        )
    };
    error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.code().is_some_and(passing)
        || is_elsewhere(error)
        || is_cut_off(error)
}

/// Whether a connection ended in the middle of an answer: the redis crate has only the parser's words for that.
fn is_cut_off(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse && error.to_string().contains("Unexpected end of input")
}
