//! The start of a private Redis.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Kind};
use crate::folder::{Folder, LONGEST_SOCKET_PATH};
use crate::keeper::Keeper;
use crate::options::Options;
use crate::port::ReservedPort;
use crate::server::RedisServer;

/// Options for a private Redis, made by [`RedisServer::builder`].
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `start`"]
pub struct Builder(Options);

// === impl RedisServer ===

impl RedisServer {
    /// Starts a `redis-server` on a unix socket and returns when it answers.
    ///
    /// # Errors
    ///
    /// See [`Builder::start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Returns options to start with: a TCP port, Redis options, another program.
    pub fn builder() -> Builder {
        Builder(Options::new())
    }
}

// === impl Builder ===

impl Builder {
    /// Runs another program, by path or looked up on the PATH: `valkey-server`, say.
    pub fn program(mut self, program: impl Into<OsString>) -> Self {
        self.0.program = program.into();
        self
    }

    /// Adds a Redis option, such as `.arg("--maxmemory", "64mb")`. It wins over this crate's own.
    pub fn arg(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.args.extend([name.into(), value.into()]);
        self
    }

    /// Listens on a free loopback TCP port too, which [`RedisServer::url`] then names.
    ///
    /// Every user of this machine can connect to the port: it is meant for tests, and for clients without unix sockets.
    pub fn tcp(mut self) -> Self {
        self.0.tcp = true;
        self
    }

    /// Makes the private folder inside `parent` instead of the temp folder; `parent` is made when missing.
    pub fn dir(mut self, parent: impl Into<PathBuf>) -> Self {
        self.0.parent = parent.into();
        self
    }

    /// Waits this long for the first answer, instead of 5 s.
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.0.start_within = limit;
        self
    }

    /// Starts the server and returns when it answers.
    ///
    /// # Errors
    ///
    /// When there is no such program ([`Error::is_not_installed`]), the folder cannot be made, or no answer comes in
    /// time. The message of the last ends with the last lines of the log.
    pub fn start(self) -> Result<RedisServer, Error> {
        let Self(options) = self;
        let folder = Folder::create(&options.parent)
            .map_err(|source| Kind::Folder { parent: options.parent.clone(), source })?;
        let path = folder.socket();
        if path.as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(Kind::PathTooLong { path }.into());
        }
        let port = options.tcp.then(ReservedPort::reserve).transpose().map_err(Kind::Port)?;
        let keeper = Keeper::new().map_err(Kind::Keeper)?;
        RedisServer::launch(options, folder, port, keeper)
    }
}
