//! One run of a `topupd` command to its end.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{Redis, SOON, Terminal, daemon};

/// A command line of `topupd`, run in an empty folder and without the caller's environment.
#[derive(Debug)]
#[must_use = "nothing runs before `run`"]
pub struct Cli {
    command: Command,
    dir: TempDir,
}

/// The end of a command.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its answer.
    pub stdout: String,
    /// Its complaints.
    pub stderr: String,
}

// === impl Cli ===

impl Cli {
    /// `topupd` with these arguments.
    ///
    /// # Panics
    ///
    /// When `topupd` is not built.
    pub fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temp folder");
        let mut command = Command::from(daemon::command());
        command.args(args).current_dir(dir.path()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, dir }
    }

    /// Uses this Redis, by `TOPUP_REDIS_URL`.
    pub fn redis(self, redis: &Redis) -> Self {
        self.env("TOPUP_REDIS_URL", redis.url())
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<Path>) -> Self {
        self.command.arg(arg.as_ref());
        self
    }

    /// Writes a file into the folder it runs in.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.dir.path().join(name), text).expect("a file in a temp folder");
        self
    }

    /// Writes `config.toml` into the folder it runs in, and names it with `--config`.
    pub fn config(self, text: &str) -> Self {
        self.file("config.toml", text).arg("--config").arg("config.toml")
    }

    /// Lets standard output go elsewhere.
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stdout(to);
        self
    }

    /// Lets standard error go elsewhere.
    pub fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stderr(to);
        self
    }

    /// Starts it on the terminal `terminal`. Its folder goes with the returned one.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start_on(mut self, terminal: &Terminal) -> (Child, TempDir) {
        self.command.env("TERM", "xterm-256color");
        self.command.stdin(terminal.other_end()).stdout(terminal.other_end()).stderr(terminal.other_end());
        (self.command.spawn().expect("topupd can be run"), self.dir)
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not end soon.
    pub async fn run(mut self) -> Ended {
        let child = self.command.spawn().expect("topupd can be run");
        let output = timeout(SOON, child.wait_with_output()).await;
        let output = output.expect("a command ends soon").expect("its output can be read");
        let text = |bytes| String::from_utf8(bytes).expect("topupd writes UTF-8");
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
