//! Errors of a private Redis.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a private Redis could not be started, stopped or signalled.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] pub(crate) Kind);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error(
        "`{program}` is not on the PATH: install it (`apt-get install redis-server`), or give `redis.url` to use \
         a Redis that runs already"
    )]
    NotInstalled { program: String },

    #[error("cannot make or use a private folder for Redis in {}", parent.display())]
    Folder { parent: PathBuf, source: io::Error },

    #[error(
        "{} is {} bytes long, and the path of a unix socket has room for {}: choose a shorter folder",
        path.display(), path.as_os_str().len(), crate::folder::LONGEST_SOCKET_PATH
    )]
    PathTooLong { path: PathBuf },

    #[error("cannot reserve a loopback port for Redis")]
    Port(#[source] io::Error),

    #[error("cannot start a thread that keeps Redis")]
    Keeper(#[source] io::Error),

    #[error("cannot start `setpriv` (util-linux 2.33 or newer), which starts Redis")]
    Spawn(#[source] io::Error),

    #[error("`{program}` ended while starting ({status}); its last words:\n{log}")]
    Ended { program: String, status: ExitStatus, log: String },

    #[error("`{program}` did not answer PING within {within:?}; its last words:\n{log}")]
    Silent { program: String, within: Duration, log: String },

    #[error("Redis is not running")]
    NotRunning,

    #[error("cannot signal or await Redis")]
    Signal(#[source] io::Error),
}

// === impl Error ===

impl Error {
    /// There is no such program on the PATH; the message says how to get one.
    #[must_use]
    pub fn is_not_installed(&self) -> bool {
        matches!(self.0, Kind::NotInstalled { .. })
    }

    /// The server has been stopped or killed, or has ended by itself.
    #[must_use]
    pub fn is_not_running(&self) -> bool {
        matches!(self.0, Kind::NotRunning)
    }
}
