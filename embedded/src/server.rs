//! A running private Redis.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Deadline;
use crate::error::{Error, Kind};
use crate::folder::Folder;
use crate::keeper::Keeper;
use crate::options::Options;
use crate::parent::child_command;
use crate::ping;
use crate::port::ReservedPort;

/// Time for SIGTERM before SIGKILL follows. A Redis told to persist writes its file then.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks at a child that starts or ends; either takes some 10 ms.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A private Redis, stopped and removed on drop.
#[derive(Debug)]
pub struct RedisServer {
    child: Option<Child>,
    options: Options,
    url: String,
    port: Option<ReservedPort>,
    keeper: Keeper,
    folder: Folder,
}

// === impl RedisServer ===

impl RedisServer {
    pub(crate) fn launch(
        options: Options,
        folder: Folder,
        port: Option<ReservedPort>,
        keeper: Keeper,
    ) -> Result<Self, Error> {
        let url = match &port {
            Some(port) => format!("redis://127.0.0.1:{}/", port.number()),
            None => format!("redis+unix://{}", percent_encoded(folder.socket().as_os_str())),
        };
        let mut server = Self { child: None, options, url, port, keeper, folder };
        server.run()?;
        Ok(server)
    }

    /// Where it listens, as the redis crate reads it; the same after a restart.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its unix socket, which it has with [`Builder::tcp`](crate::Builder::tcp) too.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// Its private folder; gone after the drop.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process id; `None` after [`stop`](Self::stop) or [`kill`](Self::kill).
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.folder.last_words()
    }

    /// Stops it and starts it anew on the same socket and port, empty; starts it when it was stopped or killed.
    ///
    /// # Errors
    ///
    /// When it cannot be stopped or does not come back; see [`Builder::start`](crate::Builder::start).
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.run()
    }

    /// Asks it to end (SIGTERM), and kills it when it has not within 2 s. Does nothing when it is not running.
    ///
    /// # Errors
    ///
    /// When the child cannot be awaited, as in a process that ignores SIGCHLD.
    pub fn stop(&mut self) -> Result<(), Error> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let deadline = Deadline::after(STOP_WITHIN);
        // A child that has ended is a zombie until awaited, so its pid cannot be somebody else's yet.
        // CONT, because a paused process gets its TERM only when it goes on.
        for signal in [Signal::TERM, Signal::CONT] {
            kill_process(Pid::from_child(child), signal).map_err(|error| Kind::Signal(error.into()))?;
        }
        while child.try_wait().map_err(Kind::Signal)?.is_none() {
            if deadline.passed() {
                return self.kill();
            }
            // Between two looks: no event tells that the child has ended, without a handler of signals.
            sleep(LOOK_AGAIN);
        }
        self.child = None;
        Ok(())
    }

    /// Ends it at once (SIGKILL), as a crash would. Does nothing when it is not running.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(child) = &mut self.child else { return Ok(()) };
        child.kill().and_then(|()| child.wait()).map_err(Kind::Signal)?;
        self.child = None;
        Ok(())
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers, as when a machine hangs.
    ///
    /// # Errors
    ///
    /// When it is not running ([`Error::is_not_running`]).
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused server go on (SIGCONT); it then answers what came in meanwhile.
    ///
    /// # Errors
    ///
    /// When it is not running ([`Error::is_not_running`]).
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or(Kind::NotRunning)?;
        kill_process(Pid::from_child(child), signal).map_err(|error| Kind::Signal(error.into()).into())
    }

    fn run(&mut self) -> Result<(), Error> {
        let program = self.options.program_name();
        if !self.options.is_installed() {
            return Err(Kind::NotInstalled { program }.into());
        }
        let command = self
            .command()
            .map_err(|source| Kind::Folder { parent: self.folder.path().to_owned(), source })?;
        let child = self.child.insert(self.keeper.spawn(command).map_err(Kind::Spawn)?);
        let within = self.options.start_within;
        let deadline = Deadline::after(within);
        while !ping::answers(&self.folder.socket()) {
            if let Some(status) = child.try_wait().map_err(Kind::Signal)? {
                self.child = None;
                return Err(Kind::Ended { program, status, log: self.last_words() }.into());
            }
            if deadline.passed() {
                self.kill()?;
                return Err(Kind::Silent { program, within, log: self.last_words() }.into());
            }
            // Between two looks: a server without systemd tells nobody that it is ready.
            sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn command(&self) -> io::Result<Command> {
        // Redis logs to its output here, so lines from before it has read its options are kept as well.
        let log = File::options().append(true).open(self.folder.log())?;
        let port = self.port.as_ref().map_or(0, ReservedPort::number).to_string();
        let mut command = child_command(&self.options.program);
        command
            .args(["--bind", "127.0.0.1", "--port", &port])
            .args([OsStr::new("--unixsocket"), self.folder.socket().as_os_str()])
            .args(["--unixsocketperm", "700", "--save", "", "--appendonly", "no"])
            .args([OsStr::new("--dir"), self.folder.path().as_os_str()])
            .args(&self.options.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // A drop cannot report; should this fail, the keeper's end, which follows, kills the child all the same.
        let _ = self.stop();
    }
}

/// A path as it may stand in a URL: a temp folder may hold a space or a `%`.
fn percent_encoded(path: &OsStr) -> String {
    path.as_bytes().iter().fold(String::new(), |mut url, &byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
        url
    })
}
