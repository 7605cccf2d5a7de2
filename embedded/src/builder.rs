//! How a private Redis is to run.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Kind};
use crate::folder::{Folder, LONGEST_SOCKET_PATH};
use crate::keeper::Keeper;
use crate::port::Port;
use crate::server::RedisServer;

/// A start takes some 10 ms; this is for a machine that is busy with something else.
const START_WITHIN: Duration = Duration::from_secs(5);

/// The choices for a private Redis; made by [`RedisServer::builder`].
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) start_within: Duration,
    parent: PathBuf,
    tcp: bool,
}

// === impl Builder ===

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            program: "redis-server".into(),
            args: Vec::new(),
            start_within: START_WITHIN,
            parent: env::temp_dir(),
            tcp: false,
        }
    }

    /// Runs another program, by path or looked up on the PATH: `valkey-server`, say.
    pub fn program(mut self, program: impl Into<OsString>) -> Self {
        self.program = program.into();
        self
    }

    /// Adds a Redis option, such as `.arg("--maxmemory", "64mb")`. It wins over this crate's own.
    pub fn arg(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.args.extend([name.into(), value.into()]);
        self
    }

    /// Listens on a free loopback TCP port too, and lets [`RedisServer::url`] name that.
    ///
    /// Every user of this machine can connect to it: meant for tests, and for clients that know no unix sockets.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Makes the private folder inside `parent` instead of the temp folder; `parent` is made when missing.
    pub fn dir(mut self, parent: impl Into<PathBuf>) -> Self {
        self.parent = parent.into();
        self
    }

    /// Waits this long for the first answer, instead of 5 s.
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.start_within = limit;
        self
    }

    /// Starts the server and returns when it answers.
    ///
    /// # Errors
    ///
    /// When there is no such program ([`Error::is_not_installed`]), its folder cannot be made, or it does not
    /// answer in time; the message then ends with the last lines of its log.
    pub fn start(self) -> Result<RedisServer, Error> {
        let folder = Folder::create(&self.parent)
            .map_err(|source| Kind::Folder { parent: self.parent.clone(), source })?;
        let path = folder.socket();
        if path.as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(Kind::PathTooLong { path }.into());
        }
        let port = self.tcp.then(Port::reserve).transpose().map_err(Kind::Port)?;
        let keeper = Keeper::new().map_err(|source| Kind::Spawn { program: self.program_name(), source })?;
        RedisServer::launch(self, folder, port, keeper)
    }

    pub(crate) fn program_name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Whether the program is a file there is. The error of a failed start does not tell: it is "permission denied"
    /// also for a program that is nowhere, when some folder of the PATH may not be entered.
    pub(crate) fn is_installed(&self) -> bool {
        let program = Path::new(&self.program);
        if program.components().count() > 1 {
            return program.exists();
        }
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| folder.join(program).exists())
    }
}
