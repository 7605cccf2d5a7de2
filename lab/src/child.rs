//! Child processes that never outlive this one.

use std::{
    process::{Command, ExitStatus, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};
use topup_embedded::child_command;

use crate::worker::{FAILED, READY};

/// Looks at a killed process, 1 ms apart. It ends within a millisecond or so, unless it hangs in the kernel.
const LOOKS: u32 = 200;

/// A child process. It is killed and awaited on drop, and the kernel kills it when this process ends.
///
/// Its command is a [`child_command`]. Start it from a thread that lives as long as the child.
#[derive(Debug)]
pub struct ChildProcess {
    process: Child,
    input: Option<ChildStdin>,
    output: Option<Lines<BufReader<ChildStdout>>>,
}

/// A command that starts this program again, in another role.
///
/// # Errors
/// When the program's own path is unknown.
pub fn this_program() -> anyhow::Result<Command> {
    Ok(child_command(std::env::current_exe().context("the path of this program is unknown")?))
}

// === impl ChildProcess ===

impl ChildProcess {
    /// Starts `command`, a [`child_command`]. Standard input, output and error are as the command says.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut process = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let input = process.stdin.take();
        let output = process.stdout.take().map(|output| BufReader::new(output).lines());
        Ok(Self { process, input, output })
    }

    /// Starts `command` with pipes, to talk to by [`tell`](Self::tell) and [`hear`](Self::hear).
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_piped(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::start(command)
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// When it does not listen any more.
    pub async fn tell_line(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("its standard input is closed")?;
        input.write_all(format!("{line}\n").as_bytes()).await.context("it does not listen any more")
    }

    /// Writes `message` to its standard input, as a line of JSON.
    ///
    /// # Errors
    /// As [`tell_line`](Self::tell_line).
    pub async fn tell(&mut self, message: &impl Serialize) -> anyhow::Result<()> {
        self.tell_line(&serde_json::to_string(message)?).await
    }

    /// Whether its standard input is open.
    pub fn listens(&self) -> bool {
        self.input.is_some()
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Reads the next line of its standard output; `None` at the end. Safe to drop and call again.
    ///
    /// # Errors
    /// When the line says that the child failed.
    pub async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        let output = self.output.as_mut().context("its standard output is not read")?;
        let line = output.next_line().await?;
        if let Some(error) = line.as_deref().and_then(|line| line.strip_prefix(FAILED)) {
            bail!("{error}");
        }
        Ok(line)
    }

    /// Reads the next line of its standard output.
    ///
    /// # Errors
    /// When the child has ended, or says that it failed.
    pub async fn hear_line(&mut self) -> anyhow::Result<String> {
        self.next_line().await?.context("it has ended")
    }

    /// Reads the next line of its standard output as JSON.
    ///
    /// # Errors
    /// As [`hear_line`](Self::hear_line), and when the line is not a `T`.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.hear_line().await?;
        serde_json::from_str(&line).with_context(|| format!("it said {line:.80}"))
    }

    /// Returns when the child has said that it is ready.
    ///
    /// # Errors
    /// When its next line says anything else, or does not come `within` this time.
    pub async fn ready(&mut self, within: Duration) -> anyhow::Result<()> {
        let line = timeout(within, self.hear_line()).await.context("it does not get ready")??;
        ensure!(line == READY, "it is not ready, but says {line:.80}");
        Ok(())
    }

    /// Its process id; `None` once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends it `signal`.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("it has ended")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits for an end that nobody asked for, and returns the error to report.
    pub async fn failure(&mut self) -> anyhow::Error {
        match self.process.wait().await {
            Ok(status) => anyhow!("it ended by itself ({status})"),
            Err(error) => error.into(),
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end `within` this time.
    pub async fn exit(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        Ok(timeout(within, self.process.wait()).await.context("it did not end in time")??)
    }

    /// Kills it and waits for its end.
    pub async fn kill(mut self) {
        // An error means that it has ended by itself.
        let _ = self.process.kill().await;
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // An error means that it has ended and been awaited already.
        if self.process.start_kill().is_err() {
            return;
        }
        for _ in 0..LOOKS {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            // Between two looks, in a drop that cannot await.
            sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = child_command("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn a_child_is_told_and_heard() {
        let mut child =
            ChildProcess::start_piped(shell("echo ready; read line; echo \"[$line]\"; exit 3")).unwrap();
        child.ready(Duration::from_secs(10)).await.unwrap();
        child.tell(&7).await.unwrap();
        assert_eq!(child.hear::<Vec<u32>>().await.unwrap(), [7]);
        assert_eq!(child.exit(Duration::from_secs(10)).await.unwrap().code(), Some(3));
        assert!(child.hear_line().await.is_err() && child.signal(Signal::TERM).is_err());
    }

    #[tokio::test]
    async fn a_child_that_fails_says_why() {
        let mut child = ChildProcess::start_piped(shell("echo failed: no Redis")).unwrap();
        let error = child.ready(Duration::from_secs(10)).await.unwrap_err();
        assert_eq!(error.to_string(), "no Redis");
    }

    #[tokio::test]
    async fn a_dropped_child_is_gone() {
        let child = ChildProcess::start_piped(shell("echo ready; read line")).unwrap();
        let pid = child.id().unwrap();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
