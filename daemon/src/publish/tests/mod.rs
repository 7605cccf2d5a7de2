//! Publishing, on a Redis of each test's own.

mod abreast;
mod freeze;
mod sweep;

use redis::{Cmd, FromRedisValue};
use topup_embedded::RedisServer;
use topup_wire::connection::{Connection, connect_lazily};

use super::{Announced, Outcome, publish};
use crate::{config::Config, wanted::wanted};

/// A Redis, and the way to it.
struct Stage {
    _server: RedisServer,
    connection: Connection,
}

// === impl Stage ===

impl Stage {
    fn set() -> Self {
        let server = RedisServer::builder().start().unwrap();
        let connection = connect_lazily(server.url()).unwrap();
        Self { _server: server, connection }
    }

    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        command.arg(words);
        command.query_async(&mut self.connection.clone()).await.unwrap()
    }

    /// Publishes what `config` says now, and nothing else, to workers who were `told` of that.
    async fn publish(&self, config: &str, told: &Announced) -> Outcome {
        let mut wanted = wanted(&Config::parse(config, "config.toml").unwrap(), 1, |_| true);
        wanted.iter_mut().for_each(|wanted| wanted.at = None);
        publish(&self.connection, &wanted, true, told, false).await.unwrap()
    }
}
