//! Publishing on a real Redis; each test starts its own.

mod concurrency;
mod freeze;
mod ownership;
mod preview;
mod sweep;

use std::collections::BTreeSet;

use redis::{Cmd, FromRedisValue};
use topup_embedded::RedisServer;
use topup_wire::{
    connection::{Connection, connect_lazily},
    scripts,
};

use super::{DesiredLimit, FrozenShards, Plan, PublishOptions, PublishOutcome, desired_limits, publish};
use crate::config::Config;

/// A Redis server and a connection to it.
struct Fixture {
    _server: RedisServer,
    connection: Connection,
}

// === impl Fixture ===

impl Fixture {
    fn start() -> Self {
        let server = RedisServer::builder().start().unwrap();
        let connection = connect_lazily(server.url()).unwrap();
        Self { _server: server, connection }
    }

    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        command.arg(words);
        command.query_async(&mut self.connection.clone()).await.unwrap()
    }

    /// Publishes the limits of `config` from now, and removes all others. Workers know of the freezes in `known`.
    async fn publish(&self, config: &str, known: &FrozenShards) -> PublishOutcome {
        let mut desired = desired_limits(&Config::parse(config, "config.toml").unwrap(), 1, |_| true);
        desired.iter_mut().for_each(|desired| desired.since = None);
        self.publish_limits(&desired, known).await
    }

    async fn publish_limits(&self, desired: &[DesiredLimit], known: &FrozenShards) -> PublishOutcome {
        let registered = scripts::published_limits(&mut self.connection.clone()).await.unwrap();
        let publish_names: BTreeSet<_> = desired.iter().map(|desired| desired.limit.name.live()).collect();
        let remove =
            registered.into_keys().map(|name| name.live()).filter(|name| !publish_names.contains(name));
        let plan = Plan { remove: remove.collect(), publish: publish_names, ..Plan::default() };
        let options = PublishOptions { plan: Some(&plan), known, announce: false };
        publish(&self.connection, desired, options).await.unwrap()
    }
}
