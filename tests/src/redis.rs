//! A Redis of a test's own, and what it can be asked.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue};
use topup_embedded::{Builder, RedisServer};
use topup_lab::RedisCounters;

use crate::SOON;

/// A private Redis with a connection to it, for the test's own questions.
#[derive(Debug)]
pub struct Redis {
    /// The server, for faults: stop, kill, restart, pause. They block for milliseconds.
    pub server: RedisServer,
    connection: MultiplexedConnection,
}

// === impl Redis ===

impl Redis {
    /// A Redis on a unix socket.
    pub async fn start() -> Self {
        Self::with(RedisServer::builder()).await
    }

    /// A Redis on a free loopback port, for faults of the network.
    pub async fn tcp() -> Self {
        Self::with(RedisServer::builder().tcp()).await
    }

    /// A Redis as the builder says.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn with(builder: Builder) -> Self {
        let builder = builder.start_within(SOON);
        let start = tokio::task::spawn_blocking(|| builder.start());
        let server = start.await.expect("a start does not panic").unwrap_or_else(|error| panic!("{error}"));
        let connection = connect(server.url()).await;
        Self { server, connection }
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Starts it again and connects to it.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn restart(&mut self) {
        self.server.restart().expect("a server that ran before starts");
        self.reconnect().await;
    }

    /// Connects the test's own connection again, after a restart.
    pub async fn reconnect(&mut self) {
        self.connection = connect(self.server.url()).await;
    }

    /// The test's own connection.
    #[must_use]
    pub fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Sends one command: `redis.ask(&["GET", key])`.
    ///
    /// # Panics
    ///
    /// When Redis refuses it or replies with something else than `T`.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let reply = Cmd::new().arg(words).query_async(&mut self.connection()).await;
        reply.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Sends many commands at once, and gives their replies in order.
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask), for any of them.
    pub async fn ask_all<T: FromRedisValue, const N: usize>(
        &self,
        commands: impl Iterator<Item = [&str; N]>,
    ) -> Vec<T> {
        let mut pipeline = redis::pipe();
        for words in commands {
            pipeline.add_command(Cmd::new().arg(&words).to_owned());
        }
        let replies = pipeline.query_async(&mut self.connection()).await;
        replies.unwrap_or_else(|error| panic!("a pipeline: {error}"))
    }

    /// The number of keys.
    pub async fn dbsize(&self) -> u64 {
        self.ask(&["DBSIZE"]).await
    }

    /// Calls of `command` (`decr`, `evalsha`) since the start or the last reset.
    pub async fn command_calls(&self, command: &str) -> u64 {
        self.command_stat(command).await.0
    }

    /// Time that Redis spent on those calls, in µs.
    pub async fn command_usec(&self, command: &str) -> u64 {
        self.command_stat(command).await.1
    }

    /// Starts counting commands anew.
    pub async fn reset_stats(&self) {
        self.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    }

    async fn command_stat(&self, command: &str) -> (u64, u64) {
        let counters = RedisCounters::read(&mut self.connection()).await;
        let (calls, micros) = counters.unwrap_or_else(|error| panic!("{error:#}")).of(&[command]);
        (calls as u64, micros as u64)
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let client = Client::open(url).expect("the server's own URL");
    // The half second it has by itself is too little on a busy machine.
    let patient =
        AsyncConnectionConfig::new().set_response_timeout(Some(SOON)).set_connection_timeout(Some(SOON));
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
    connection.unwrap_or_else(|error| panic!("{url}: {error}"))
}
