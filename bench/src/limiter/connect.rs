//! Connections of the limiters that let the caller choose.

use redis::{Client, IntoConnectionInfo, aio::MultiplexedConnection, io::tcp::TcpSettings};

use super::decide::Load;

/// A client with `TCP_NODELAY`, as topup's has.
///
/// # Errors
/// When `url` is none of a Redis.
pub fn client(url: &str) -> anyhow::Result<Client> {
    let info = url.into_connection_info()?;
    Ok(Client::open(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))?)
}

/// A connection for a limiter under `load`, whose deadline is that of each answer.
pub(super) async fn connect(load: &Load) -> anyhow::Result<MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(load.deadline);
    Ok(client(&load.redis)?.get_multiplexed_async_connection_with_config(&config).await?)
}
