//! redis-cell: `CL.THROTTLE`, GCRA as a native command of Redis.

use redis::aio::MultiplexedConnection;

use super::{
    connect::connect,
    decide::{Decide, Load, Names},
};
use crate::rules::Rule;

#[derive(Debug)]
pub(crate) struct RedisCell {
    connection: MultiplexedConnection,
    names: Names,
    rule: Rule,
    tokens: u64,
}

// === impl RedisCell ===

impl RedisCell {
    pub(crate) async fn new(load: &Load, names: Names) -> anyhow::Result<Self> {
        Ok(Self { connection: connect(load).await?, names, rule: load.rule, tokens: load.tokens })
    }
}

impl Decide for RedisCell {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let mut throttle = redis::cmd("CL.THROTTLE");
        // One more than its burst are allowed at once.
        throttle.arg(&*self.names.of(key)).arg(self.rule.capacity() - 1);
        throttle.arg(self.rule.tokens()).arg(self.rule.period());
        if self.tokens > 1 {
            throttle.arg(self.tokens);
        }
        let (limited, ..): (u8, i64, i64, i64, i64) =
            throttle.query_async(&mut self.connection.clone()).await?;
        Ok(limited == 0)
    }
}
