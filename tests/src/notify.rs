//! A stand-in for the socket on which systemd hears from its services.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Collects what a service tells systemd; [`Launch::notify`](crate::Launch::notify) points a daemon at it.
#[derive(Debug)]
pub struct NotifySocket {
    heard: watch::Receiver<Vec<String>>,
    /// Messages that a wait has seen.
    seen: usize,
    reader: AbortHandle,
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
        let (writer, heard) = watch::channel(Vec::new());
        // Read whether a test waits or not, as systemd does: a service blocks when ten messages are unread.
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer).await {
                let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
                writer.send_modify(|heard| heard.push(message));
            }
        });
        Self { heard, seen: 0, reader: reader.abort_handle(), dir }
    }

    /// The value for `NOTIFY_SOCKET`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("notify")
    }

    /// The next message with `line` among its lines (`READY=1`) or a line that starts with it (`STATUS=`). Messages up to
    /// the one found last are not looked at again.
    ///
    /// # Panics
    ///
    /// When `deadline` passes first; the message lists all that came.
    pub async fn wait_for(&mut self, line: &str, deadline: Duration) -> String {
        let seen = self.seen;
        let find = |heard: &Vec<String>| {
            let matches = |message: &String| message.lines().any(|found| found.starts_with(line));
            heard.iter().skip(seen).position(matches).map(|at| seen + at)
        };
        let arrival = self.heard.wait_for(|heard| find(heard).is_some());
        let found = timeout(deadline, arrival).await.ok().and_then(Result::ok).and_then(|heard| find(&heard));
        let Some(at) = found else {
            panic!("no {line} within {deadline:?}; came: {:#?}", *self.heard.borrow());
        };
        self.seen = at + 1;
        self.heard.borrow()[at].clone()
    }

    /// All messages up to the one that [`wait_for`](Self::wait_for) found last, oldest first.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.heard.borrow()[..self.seen].to_vec()
    }
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
