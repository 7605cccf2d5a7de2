//! The daemon as a child process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;
use topup_lab::ChildProcess;

use crate::lines::Lines;
use crate::{NotifySocket, Redis, cargo};

/// The start of a daemon, with a `config.toml` in a temp folder of its own.
#[derive(Debug)]
#[must_use = "nothing runs before `run` or `check`"]
pub struct Launch {
    command: Command,
    args: Vec<OsString>,
    dir: TempDir,
    is_journal: bool,
}

/// A running `topupd run`; killed on drop.
#[derive(Debug)]
pub struct Daemon {
    child: ChildProcess,
    stderr: Lines,
    dir: TempDir,
}

// === impl Launch ===

impl Launch {
    /// A daemon with this configuration. Its Redis is the one the text names, unless [`redis`](Self::redis) is
    /// called.
    ///
    /// # Panics
    ///
    /// When `topupd` is not built, or the file cannot be written.
    pub fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temp folder");
        write(&config_path(&dir), config);
        let mut command = command();
        command.stdin(Stdio::null());
        Self { command, args: Vec::new(), dir, is_journal: false }
    }

    /// Uses this Redis, by `TOPUP_REDIS_URL`, which wins over the configuration.
    pub fn redis(self, redis: &Redis) -> Self {
        self.env("TOPUP_REDIS_URL", redis.url())
    }

    /// Tells the daemon that systemd listens here.
    pub fn notify(self, socket: &NotifySocket) -> Self {
        self.env("NOTIFY_SOCKET", socket.path())
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Tells the daemon that its stderr is the journal of systemd.
    pub fn journal(mut self) -> Self {
        self.is_journal = true;
        self
    }

    /// Adds an argument behind `--config`.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// The path of its configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        config_path(&self.dir)
    }

    /// Starts `topupd run`; must be called inside a runtime. It may not be ready when this returns.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn run(mut self) -> Daemon {
        self.say("run");
        let (stderr, writer) = std::io::pipe().expect("a pipe");
        if self.is_journal {
            let stream = File::from(OwnedFd::from(writer.try_clone().expect("a second end")));
            let stream = stream.metadata().expect("a pipe has an inode");
            self.command.env("JOURNAL_STREAM", format!("{}:{}", stream.dev(), stream.ino()));
        }
        self.command.stdout(Stdio::null()).stderr(writer);
        let child = ChildProcess::start(self.command).unwrap_or_else(|error| panic!("{error:#}"));
        let stderr = Receiver::from_owned_fd(stderr.into()).expect("a pipe is read without blocking");
        let stderr = Lines::of(stderr);
        Daemon { child, stderr, dir: self.dir }
    }

    /// Runs `topupd check` to its end.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not end within `deadline`.
    pub async fn check(mut self, deadline: Duration) -> Output {
        self.say("check");
        let mut command = tokio::process::Command::from(self.command);
        let output = timeout(deadline, command.kill_on_drop(true).output()).await;
        output
            .unwrap_or_else(|_| panic!("`topupd check` did not end within {deadline:?}"))
            .unwrap_or_else(|error| panic!("topupd cannot be run: {error}"))
    }

    fn say(&mut self, word: &str) {
        self.command.arg(word).arg("--config").arg(config_path(&self.dir)).args(&self.args);
    }
}

// === impl Daemon ===

impl Daemon {
    /// Starts a daemon with this configuration on this Redis.
    #[must_use]
    pub fn spawn(config: &str, redis: &Redis) -> Self {
        Launch::new(config).redis(redis).run()
    }

    /// The program itself.
    #[must_use]
    pub fn program() -> &'static Path {
        cargo::topupd()
    }

    /// The next line on its stderr with `text` in it; lines up to the one found last are not looked at again.
    ///
    /// # Panics
    ///
    /// When `deadline` passes or the daemon ends first; the message holds its whole output.
    pub async fn wait_for_line(&mut self, text: &str, deadline: Duration) -> String {
        self.stderr.wait_for(text, deadline).await
    }

    /// Where the Redis of its own listens, of one run with `--embedded`; returns when the daemon is ready.
    ///
    /// # Panics
    ///
    /// When `deadline` passes or the daemon ends first.
    pub async fn embedded_url(&mut self, deadline: Duration) -> String {
        let line = self.wait_for_line("embedded Redis on ", deadline).await;
        let url = line.split("embedded Redis on ").nth(1).and_then(|rest| rest.split(';').next());
        let url = url.expect("the line names it").to_owned();
        self.wait_for_line("ready", deadline).await;
        url
    }

    /// All it has written to stderr so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.stderr.all()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// When it has been awaited already.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal).unwrap_or_else(|error| panic!("{signal:?} not sent: {error:#}"));
    }

    /// Its process id.
    ///
    /// # Panics
    ///
    /// When it has been awaited already.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the daemon should be running")
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When `deadline` passes first; the message holds its whole output.
    pub async fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let ended = self.child.exit(deadline).await;
        ended.unwrap_or_else(|error| {
            panic!("{error} ({deadline:?}); its output:\n{}", self.lines().join("\n"))
        })
    }

    /// Sends it a signal and waits for its end.
    ///
    /// # Panics
    ///
    /// As [`wait_exit`](Self::wait_exit).
    pub async fn end(&mut self, signal: Signal, deadline: Duration) -> ExitStatus {
        self.signal(signal);
        self.wait_exit(deadline).await
    }

    /// The path of its configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        config_path(&self.dir)
    }

    /// Replaces its configuration and tells it by HUP.
    ///
    /// # Panics
    ///
    /// As [`rewrite_config`](Self::rewrite_config).
    pub fn reload(&self, config: &str) {
        self.rewrite_config(config);
        self.signal(Signal::HUP);
    }

    /// Replaces its configuration in one step, as editors do; the daemon is not told.
    ///
    /// # Panics
    ///
    /// When the file cannot be written.
    pub fn rewrite_config(&self, text: &str) {
        let new = self.dir.path().join("config.toml.new");
        write(&new, text);
        std::fs::rename(&new, self.config()).unwrap_or_else(|error| panic!("{}: {error}", new.display()));
    }
}

/// A command that runs `topupd`, without the caller's environment for daemons.
pub(crate) fn command() -> Command {
    topup_lab::Daemon::command(cargo::topupd()).unwrap_or_else(|error| panic!("{error:#}"))
}

fn config_path(dir: &TempDir) -> PathBuf {
    dir.path().join("config.toml")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
