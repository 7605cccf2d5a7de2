//! A stand-in for the socket on which systemd hears from its services.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::time::timeout;

/// Collects what a service tells systemd; [`Launch::notify`](crate::Launch::notify) points a daemon at it.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    seen: Vec<String>,
    dir: TempDir,
}

// === impl NotifySocket ===

impl NotifySocket {
    /// Binds a socket in a temp folder of its own; must be called inside a runtime.
    ///
    /// # Panics
    ///
    /// When it cannot.
    #[must_use]
    pub fn bind() -> Self {
        let dir = tempfile::tempdir().expect("a temp folder");
        let socket = UnixDatagram::bind(dir.path().join("notify")).expect("a datagram socket");
        Self { socket, seen: Vec::new(), dir }
    }

    /// The value for `NOTIFY_SOCKET`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("notify")
    }

    /// The next message with `line` among its lines (`READY=1`) or a line that starts with it (`STATUS=`).
    ///
    /// # Panics
    ///
    /// When `deadline` passes first; the message lists all that came.
    pub async fn wait_for(&mut self, line: &str, deadline: Duration) -> String {
        let arrival = async {
            loop {
                let message = self.receive().await;
                if message.lines().any(|found| found.starts_with(line)) {
                    return message;
                }
            }
        };
        match timeout(deadline, arrival).await {
            Ok(message) => message,
            Err(_) => panic!("no {line} within {deadline:?}; came: {:#?}", self.seen),
        }
    }

    /// All messages received by [`wait_for`](Self::wait_for) so far, oldest first.
    #[must_use]
    pub fn seen(&self) -> &[String] {
        &self.seen
    }

    async fn receive(&mut self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).await.expect("a datagram");
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        self.seen.push(message.clone());
        message
    }
}
