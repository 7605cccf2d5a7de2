//! A bare `DECR` or `DECRBY` of one counter per key over one pipelined connection: the ceiling of limiters that ask Redis
//! each time.

use redis::aio::MultiplexedConnection;

use super::{
    connect::connect,
    decide::{Decide, Load, Names},
};

#[derive(Debug)]
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    names: Names,
    tokens: u64,
}

// === impl Raw ===

impl Raw {
    pub(crate) async fn new(load: &Load, names: Names) -> anyhow::Result<Self> {
        Ok(Self { connection: connect(load).await?, names, tokens: load.tokens })
    }
}

impl Decide for Raw {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let mut decrement = redis::cmd(if self.tokens == 1 { "DECR" } else { "DECRBY" });
        decrement.arg(&*self.names.of(key));
        if self.tokens > 1 {
            decrement.arg(self.tokens);
        }
        let left: i64 = decrement.query_async(&mut self.connection.clone()).await?;
        // Counted down from nothing: this limits nobody.
        Ok(left < 0)
    }
}
