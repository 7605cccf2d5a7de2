//! The scripts that most projects write for themselves.

use redis::aio::MultiplexedConnection;

use super::{Decide, Names, raw::connect};
use crate::worker::Load;

const LAZY: &str = include_str!("lazy.lua");
const LOG: &str = include_str!("log.lua");

#[derive(Debug)]
pub(crate) struct Script {
    connection: MultiplexedConnection,
    script: redis::Script,
    names: Names,
    /// As the script reads them.
    arguments: [u64; 2],
}

// === impl Script ===

impl Script {
    pub(crate) async fn lazy(load: &Load, names: Names) -> anyhow::Result<Self> {
        Self::new(LAZY, load, names, [load.rule.capacity(), load.rule.per_second()]).await
    }

    pub(crate) async fn log(load: &Load, names: Names) -> anyhow::Result<Self> {
        // So many in any second. A log has no burst beside its rate.
        Self::new(LOG, load, names, [load.rule.per_second(), 1_000_000]).await
    }

    async fn new(text: &str, load: &Load, names: Names, arguments: [u64; 2]) -> anyhow::Result<Self> {
        let (script, mut connection) = (redis::Script::new(text), connect(&load.redis).await?);
        script.load_async(&mut connection).await?;
        Ok(Self { connection, script, names, arguments })
    }
}

impl Decide for Script {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let mut call = self.script.key(&self.names[key]);
        let allowed: u8 = call.arg(&self.arguments).invoke_async(&mut self.connection.clone()).await?;
        Ok(allowed == 1)
    }
}
