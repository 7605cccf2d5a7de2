//! This program as a child of itself, in another role; never outlives its parent.

use std::process::Stdio;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{self, ChildStdin, ChildStdout, Command},
};

use super::line;

/// What of the user's environment would make a daemon another than its config says.
const NOT_INHERITED: [&str; 6] = [
    "TOPUP_REDIS_URL",
    "TOPUP_LOG",
    "CREDENTIALS_DIRECTORY",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// A child process; killed on drop.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

// === impl Child ===

impl Child {
    /// Starts this program in the hidden role `role`, in a process group of its own: Ctrl-C reaches the parent alone, which
    /// ends the rest.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(role: &str, args: &[&str]) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("where is this program?")?;
        let mut command = Command::new(this);
        command.args([role, "--parent", &std::process::id().to_string()]).args(args);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        // What its daemon has to say of a limit that is to be shown failing is no news.
        command.env("TOPUP_LOG", "error");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut process = command.spawn().with_context(|| format!("a {role} does not start"))?;
        let input = process.stdin.take().context("no standard input")?;
        let output = BufReader::new(process.stdout.take().context("no standard output")?).lines();
        Ok(Self { process, input, output })
    }

    /// Tells it something.
    ///
    /// # Errors
    /// When it does not listen any more.
    pub async fn tell(&mut self, what: &impl Serialize) -> anyhow::Result<()> {
        self.input.write_all(line(what)?.as_bytes()).await.context("it does not listen any more")
    }

    /// What it says next.
    ///
    /// # Errors
    /// When it has ended, or says something else.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.output.next_line().await?.context("it failed, see above")?;
        serde_json::from_str(&line).with_context(|| format!("it said {line:.80}"))
    }

    /// Its process id; `None` once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits for an end that nobody asked for: the error to report.
    pub async fn failure(&mut self) -> anyhow::Error {
        match self.process.wait().await {
            Ok(status) => anyhow::anyhow!("it ended by itself ({status})"),
            Err(error) => error.into(),
        }
    }

    /// Kills it and waits for its end.
    pub async fn end(mut self) {
        // An error means that it has ended by itself.
        let _ = self.process.kill().await;
    }
}

/// In the child: from now on this process ends with its parent, `kill -9` included.
///
/// # Errors
/// When the parent has ended already.
pub fn follow(parent: i32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the call above sends nothing any more.
    ensure!(getppid() == Pid::from_raw(parent), "the comparison has ended");
    Ok(())
}
