//! A bare `DECR` of one counter per key over one pipelined connection: the ceiling of limiters that ask Redis each time.

use redis::aio::MultiplexedConnection;

use super::{
    connect::connect,
    decide::{Decide, Load, Names},
};

#[derive(Debug)]
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    names: Names,
}

// === impl Raw ===

impl Raw {
    pub(crate) async fn new(load: &Load, names: Names) -> anyhow::Result<Self> {
        Ok(Self { connection: connect(load).await?, names })
    }
}

impl Decide for Raw {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let mut decr = redis::cmd("DECR");
        let left: i64 = decr.arg(&*self.names.of(key)).query_async(&mut self.connection.clone()).await?;
        // Counted down from nothing: this limits nobody.
        Ok(left < 0)
    }
}
