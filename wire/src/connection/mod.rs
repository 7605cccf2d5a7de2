//! Connections to Redis: to one server, or to the node of a cluster that has the keys.

mod address;
mod ask;
mod cause;
mod cluster_router;
mod halves;
mod node;
mod parameters;
mod redirect;
mod sentinel;
mod silence;
mod socket;
#[cfg(feature = "tls")]
mod tls;
mod tls_files;
mod topology;
mod transient;

use std::{fmt, sync::Arc, time::Duration};

use redis::{
    Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value, aio::ConnectionLike,
};

pub use address::Address;
pub use cause::Cause;
pub(crate) use cluster_router::{ClusterRouter, SLOW, node_replaced};
pub(crate) use halves::{Reader, Writer};
use node::Commands;
pub(crate) use node::Node;
pub use parameters::{ParameterError, split_namespace};
pub use redirect::is_elsewhere;
use sentinel::SentinelUrl;
pub(crate) use socket::open;
pub use tls_files::with_tls_file;
pub(crate) use transient::code;
pub use transient::is_transient;

use crate::{
    hash_slot::HashSlot,
    namespace::{InNamespace, Namespace},
};

/// The longest time for one attempt to connect. A host needs a few round trips; a second also covers a lost packet.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection on which nothing has been acknowledged for this long is closed and opened again. Some command is sent
/// at least every second, so a vanished host is noticed within this time. A server that does not reply, though the network
/// acknowledges, is noticed within twice this time.
pub(crate) const VANISHED: Duration = Duration::from_secs(5);

/// A connection to Redis that many tasks share, pipelined. It is opened at the first command and reopened after a
/// break.
///
/// Callers need not know whether Redis is one server or a cluster. A command goes to the node of its keys, which must
/// be in one hash slot. A command without keys (`SCRIPT LOAD`) goes to the node of the command before it. A node
/// without the keys redirects to the right one and has done nothing, so the command is sent there. No other command is
/// sent twice.
#[derive(Clone)]
pub struct Connection {
    router: Arc<ClusterRouter>,
    /// The node of the last command.
    last: Option<Arc<Node>>,
    namespace: Namespace,
}

/// A connection to the Redis at `url`. The schemes are `redis://`, `rediss://` for TLS, and `unix://`. Several nodes of a
/// cluster are `redis://host:port,host:port`. The sentinels of a master are
/// `redis+sentinel://host:port,host:port/name`. A URL may name a namespace: `redis://host?namespace=shop`.
///
/// Commands have no time limit. Callers set deadlines of their own.
///
/// # Errors
/// When `url` is not the URL of a Redis server.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect_lazily(url: &str) -> RedisResult<Connection> {
    let router = ClusterRouter::open(url)?;
    // A wrong parameter has been reported by now.
    let namespace = split_namespace(url).ok().and_then(|(_, namespace)| namespace).unwrap_or_default();
    Ok(Connection { router, last: None, namespace })
}

/// A connection to a Redis in memory.
///
/// # Panics
/// Outside of a tokio runtime.
#[cfg(feature = "in-memory")]
pub fn connect_in_memory(redis: &crate::in_memory::InMemoryRedis) -> Connection {
    let router = ClusterRouter::of_memory(redis.clone());
    Connection { router, last: None, namespace: Namespace::default() }
}

/// Whether `url` names Redis servers.
///
/// # Errors
/// The reason why it does not.
pub fn check(url: &str) -> RedisResult<()> {
    if SentinelUrl::parse(url)?.is_some() { Ok(()) } else { address::check(url) }
}

/// `url` without what may be secret, for messages. Only of a URL that [`check`] accepts, more than the scheme is left.
pub fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    if check(url).is_err() {
        return if scheme.chars().all(|c| c.is_ascii_lowercase() || c == '+') {
            format!("{scheme}://***")
        } else {
            "***".to_owned()
        };
    }
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@').filter(|_| !address::is_unix(url)) {
        Some((_, hosts)) => format!("{scheme}://***@{hosts}"),
        None => format!("{scheme}://{}", &rest[..end]),
    }
}

// === impl Connection ===

impl Connection {
    /// The same connection for the keys of `namespace`.
    #[must_use]
    pub fn in_namespace(self, namespace: Namespace) -> Self {
        Self { namespace, ..self }
    }

    /// The node of `hash_slot`; `None` unless Redis is known to be a cluster.
    pub fn node_of(&self, hash_slot: HashSlot) -> Option<Address> {
        if self.router.has_sentinels() {
            return None;
        }
        self.router.owner(hash_slot)?.address().cloned()
    }

    /// One connection for each node. Commands without keys (`SCAN`) go to that node.
    ///
    /// # Errors
    /// Errors of Redis.
    pub async fn each_node(&self) -> RedisResult<Vec<Self>> {
        if self.router.nodes().is_empty() && !self.router.refresh().await? {
            return Ok(vec![self.clone()]);
        }
        let nodes = self.router.nodes().into_iter();
        Ok(nodes.map(|node| Self { last: Some(node), ..self.clone() }).collect())
    }

    /// The cause of `error`, which the last command had. Asks the server on a new connection, for at most a second, if
    /// the error alone does not tell.
    pub async fn diagnose(&self, error: &RedisError) -> Cause {
        let node = self.last.clone().or_else(|| self.router.owner(HashSlot::default()));
        cause::diagnose(error, node.as_ref().unwrap_or(self.router.first()).endpoint()).await
    }

    pub(crate) fn router(&self) -> &Arc<ClusterRouter> {
        &self.router
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let hash_slot = key_of(cmd).map(HashSlot::of);
            let mut answers = self.ask_permitted(cmd, hash_slot).await?;
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

impl InNamespace for Connection {
    fn namespace(&self) -> Namespace {
        self.namespace
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_no_part_of_a_password() {
        for (url, shown) in [
            ("redis://u:hunter2@host:1/3", "redis://***@host:1/3"),
            ("redis://:hun@ter2@a,b", "redis://***@a,b"),
            ("unix:///run/a@b.sock?pass=hunter2@x", "unix:///run/a@b.sock"),
            ("redis://u:hun/ter2@host", "redis://***"),
            ("redis://u:1234?ter2@host", "redis://***"),
            ("redis://hunter2#x@host", "redis://***"),
            ("Hunter2://x", "***"),
            ("hunter2", "***"),
        ] {
            assert_eq!(redacted(url), shown);
            let error = check(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!["hunter2", "ter2", "1234"].iter().any(|part| error.contains(part)), "{error}");
        }
    }
}
