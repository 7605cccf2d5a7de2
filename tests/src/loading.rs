//! A Redis that loads its data for long.

use std::process::Stdio;

use tokio::process::{Child, Command};
use topup_embedded::ReservedPort;

use crate::Redis;

/// A second server with the data of another one. It ends with this value.
#[derive(Debug)]
pub struct Loading {
    _server: Child,
    url: String,
}

// === impl Loading ===

impl Loading {
    /// A server that loads the keys `data` of `redis` besides its own, each of them for `key_delay` µs.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn of(redis: &Redis, data: &[(String, String)], key_delay: u32) -> Self {
        redis.ask_all::<(), 3>(data.iter().map(|(key, value)| ["SET", key.as_str(), value.as_str()])).await;
        redis.ask::<()>(&["SAVE"]).await;
        let port = ReservedPort::reserve().expect("a port");
        // Redis looks at its clients once in a KiB.
        let server = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.number().to_string()])
            .args(["--key-load-delay", &key_delay.to_string()])
            .args(["--loading-process-events-interval-bytes", "1024", "--dir"])
            .arg(redis.server.folder())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a redis-server");
        Self { _server: server, url: format!("redis://127.0.0.1:{}", port.number()) }
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}
