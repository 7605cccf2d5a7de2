//! The daemon as a child process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use rustix::process::Signal;

use crate::{ChildProcess, child_command};

/// The daemon promises to end within a second.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Variables of the user's environment that would make a daemon another than its config says.
const NOT_INHERITED: [&str; 7] = [
    "TOPUP_REDIS_URL",
    "TOPUP_LOG",
    "CREDENTIALS_DIRECTORY",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "JOURNAL_STREAM",
];
/// Lines of the log that an error shows.
const LAST_LINES: usize = 8;

/// A running `topupd run`, killed on drop.
#[derive(Debug)]
pub struct Daemon {
    child: ChildProcess,
    config: PathBuf,
    log: PathBuf,
}

// === impl Daemon ===

impl Daemon {
    /// A command that runs the daemon's `program`, without the user's environment for daemons.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn command(program: &Path) -> anyhow::Result<Command> {
        ensure!(program.exists(), "{} is missing", program.display());
        let mut command = child_command(program);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        command.env("NO_COLOR", "1");
        Ok(command)
    }

    /// Starts `command` with the arguments `run --config`. Config and log are files in `folder`. The daemon may not be
    /// ready when this returns.
    ///
    /// # Errors
    /// When a file cannot be written, or the daemon cannot be started.
    pub fn start(mut command: Command, folder: &Path, config: &str) -> anyhow::Result<Self> {
        let (path, log) = (folder.join("config.toml"), folder.join("topupd.log"));
        fs::write(&path, config).with_context(|| path.display().to_string())?;
        // Appended to: two daemons may share a folder.
        let output = File::options().create(true).append(true).open(&log)?;
        output.set_len(0)?;
        command.args(["run", "--config"]).arg(&path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        Ok(Self { child: ChildProcess::start(command).context("topupd")?, config: path, log })
    }

    /// Replaces the config in one step, as editors do, and sends HUP.
    ///
    /// # Errors
    /// When the file cannot be written, or the daemon has ended.
    pub fn reload(&self, config: &str) -> anyhow::Result<()> {
        let new = self.config.with_extension("toml.new");
        fs::write(&new, config).and_then(|()| fs::rename(&new, &self.config)).context("config.toml")?;
        self.child.signal(Signal::HUP).context("topupd")
    }

    /// Its process id; `None` once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether its log holds `text`.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn has_logged(&self, text: &str) -> anyhow::Result<bool> {
        Ok(fs::read_to_string(&self.log)?.contains(text))
    }

    /// Waits for an end that nobody asked for, and returns the error to report.
    pub async fn failure(&mut self) -> anyhow::Error {
        let error = self.child.failure().await;
        self.explain(error.context("topupd"))
    }

    /// `error`, with the last lines of the daemon's log.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        if last.is_empty() { error } else { anyhow!("{error:#}; the last lines of topupd's log:\n{last}") }
    }

    /// Asks it to end (TERM) and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time, or not well.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.child.signal(Signal::TERM).context("topupd")?;
        let status = self.child.exit(END_WITHIN).await.context("topupd")?;
        ensure!(status.success(), self.explain(anyhow!("topupd failed ({status})")));
        Ok(())
    }

    /// Kills it and waits for its end.
    pub async fn kill(self) {
        self.child.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_daemon_that_fails_is_explained_by_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Daemon::command(Path::new("/bin/sh")).unwrap();
        command.args(["-c", "echo cannot \"$1\" >&2; exit 2"]);
        let mut daemon = Daemon::start(command, folder.path(), "[redis]\n").unwrap();
        let error = daemon.failure().await.to_string();
        assert!(error.ends_with("log:\ncannot --config"), "{error}");
        assert!(daemon.has_logged("cannot").unwrap() && daemon.stop().await.is_err());
        assert!(Daemon::command(&folder.path().join("topupd")).is_err());
    }
}
