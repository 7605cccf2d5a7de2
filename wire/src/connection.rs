//! The way to Redis.

use std::{
    fmt,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use redis::{
    Client, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
    aio::{ConnectionManager, ConnectionManagerConfig},
    io::tcp::TcpSettings,
};

/// A connection shared by many tasks: commands of all are pipelined, and it comes back by itself.
pub type Connection = ConnectionManager;

/// The longest one attempt to connect may take.
///
/// A host that answers at all does so within a few round trips; a second also covers a lost packet.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection on which nothing has been acknowledged for this long is given up and made anew: a host that vanished
/// without a word is noticed within it, as something is asked at least every second.
#[cfg(target_os = "linux")]
pub(crate) const VANISHED: Duration = Duration::from_secs(5);

/// A connection to the Redis at `url` (`redis://`, `unix://`), made at its first command.
///
/// Commands have no time limit of their own: whoever waits for one sets a deadline.
///
/// # Errors
/// When `url` is not one of a Redis server.
pub fn connect_lazily(url: &str) -> RedisResult<Connection> {
    let info = url.into_connection_info()?;
    // Without nodelay a small command waits for the acknowledgement of the one before.
    let tcp = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(VANISHED);
    let info = info.set_tcp_settings(tcp);
    // One attempt for each command that finds no connection: the caller knows when to try again.
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(None);
    ConnectionManager::new_lazy_with_config(Client::open(info)?, config)
}

/// The way to one Redis: a connection, and another when that one is no good any more.
///
/// A connection comes back by itself after a break. But one that was refused (a wrong password, too many clients) never
/// tries again, and one to a server that no longer takes writes stays with it.
pub struct Link {
    url: String,
    current: RwLock<Connection>,
}

// === impl Link ===

impl Link {
    /// A link to the Redis at `url`, see [`connect_lazily`].
    ///
    /// # Errors
    /// When `url` is not one of a Redis server.
    pub fn open(url: &str) -> RedisResult<Self> {
        Ok(Self { url: url.to_owned(), current: RwLock::new(connect_lazily(url)?) })
    }

    /// The connection.
    pub fn get(&self) -> Connection {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects anew with the next command if `error` is not one that passes on the connection there is.
    pub fn mend(&self, error: &RedisError) {
        if let (false, Ok(connection)) = (error.is_io_error(), connect_lazily(&self.url)) {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = connection;
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// Whether the same request may succeed later, as it is: Redis was away, starting, failing over or out of memory.
pub fn is_transient(error: &RedisError) -> bool {
    let passing = |code: &str| {
        matches!(
            code,
            "LOADING"
                | "BUSY"
                | "TRYAGAIN"
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
        || is_cut_off(error)
}

/// Whether a connection ended in the middle of an answer: the redis crate has only the parser's words for that.
fn is_cut_off(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse && error.to_string().contains("Unexpected end of input")
}
