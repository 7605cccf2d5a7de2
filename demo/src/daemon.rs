//! The daemon as a child process.

use std::{
    convert::Infallible,
    ffi::OsString,
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::{process::Command, time::timeout};

use crate::{child::Child, show::Ended};

/// The daemon promises to be gone within a second.
const END_WITHIN: Duration = Duration::from_secs(2);
/// What of the user's environment would make this daemon another than its config says.
const NOT_INHERITED: [&str; 6] = [
    "TOPUP_REDIS_URL",
    "TOPUP_LOG",
    "CREDENTIALS_DIRECTORY",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];
/// Lines of its log worth reading when it fails.
const LAST_LINES: usize = 8;

/// A running `topupd run`.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    config: PathBuf,
    log: PathBuf,
}

// === impl Daemon ===

impl Daemon {
    /// Starts `topupd` with a `config.toml` in `folder`. It may not be ready when this returns.
    pub(crate) fn start(folder: &Path, config: &str) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("where is this program?")?;
        let program = this.with_file_name("topupd");
        ensure!(program.exists(), "{} is missing: scripts/demo builds it", program.display());
        let (path, log) = (folder.join("config.toml"), folder.join("topupd.log"));
        fs::write(&path, config).with_context(|| path.display().to_string())?;
        let mut command = Command::new(this);
        command
            .arg("leash")
            .arg(std::process::id().to_string())
            .arg(program)
            .args(["run", "--config"])
            .arg(&path);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = Child::spawn(&mut command).context("cannot start topupd")?;
        Ok(Self { child, config: path, log })
    }

    /// Replaces its config in one step, as editors do, and tells it.
    pub(crate) fn reload(&self, config: &str) -> anyhow::Result<()> {
        let new = self.config.with_extension("toml.new");
        fs::write(&new, config).and_then(|()| fs::rename(&new, &self.config)).context("config.toml")?;
        self.signal(Signal::HUP)
    }

    /// Its process id; `None` once it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for an end nobody asked for: the error to report.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => self.explain(anyhow!("topupd ended by itself ({status})")),
            Err(error) => error.into(),
        }
    }

    /// The error, with the last lines of the daemon's log.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        if last.is_empty() { error } else { anyhow!("{error:#}; topupd's last words:\n{last}") }
    }

    /// Ends it.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let status = timeout(END_WITHIN, self.child.wait()).await.context("topupd did not end in time")??;
        ensure!(status.success(), self.explain(anyhow!("topupd failed ({status})")));
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("topupd has ended")?;
        Ok(kill_process(pid, signal)?)
    }
}

/// Becomes `program`, to be ended by the kernel when its parent ends, `kill -9` included. What the kernel is asked for
/// here outlasts the change of program, and needs no unsafe code between fork and exec.
pub(crate) fn leash(parent: i32, program: &Path, args: &[OsString]) -> anyhow::Result<Ended> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // A parent that died before the call above sends nothing any more.
    ensure!(getppid() == Pid::from_raw(parent), "the demo has ended");
    let failed: Result<Infallible, _> = Err(std::process::Command::new(program).args(args).exec());
    match failed.with_context(|| program.display().to_string())? {}
}
