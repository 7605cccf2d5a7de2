//! A bare `DECR` of one counter per key over one pipelined connection: the ceiling of whatever asks Redis each time.

use std::time::Duration;

#[cfg(feature = "trypema")]
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, IntoConnectionInfo, aio::MultiplexedConnection, io::tcp::TcpSettings};

use super::{Decide, Names};
use crate::worker::Load;

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

/// Connected as topup's client does, nodelay, for everybody who lets us choose.
fn client(url: &str) -> anyhow::Result<Client> {
    let info = url.into_connection_info()?;
    Ok(Client::open(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))?)
}

/// For a limiter under `load`, whose deadline is that of each answer.
pub(crate) async fn connect(load: &Load) -> anyhow::Result<MultiplexedConnection> {
    open(&load.redis, load.deadline).await
}

/// Waits for answers as long as `deadline`, or for ever.
pub(crate) async fn open(url: &str, deadline: Option<Duration>) -> anyhow::Result<MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(deadline);
    Ok(client(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

#[cfg(feature = "trypema")]
pub(crate) async fn manager(url: &str) -> anyhow::Result<ConnectionManager> {
    let config = ConnectionManagerConfig::new().set_response_timeout(None);
    Ok(ConnectionManager::new_with_config(client(url)?, config).await?)
}
