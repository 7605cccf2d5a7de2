//! Worker processes: each has a client of its own and takes tokens until it is told to stop.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{Attempt, AttemptLog, Pace, SOON};

/// The line with which a worker says that it has connected.
pub const READY: &str = "ready";

/// Running worker processes; killed on drop.
#[derive(Debug)]
#[must_use = "workers end when this is dropped"]
pub struct Workers {
    /// The attempts of all of them.
    pub log: AttemptLog,
    children: Vec<Child>,
    readers: JoinSet<()>,
}

// === impl Workers ===

impl Workers {
    /// Starts `count` processes of `program` (`worker/main.rs`), each of which takes of `limit` at this pace.
    /// Returns when all have connected.
    ///
    /// # Panics
    ///
    /// When one does not start or connect.
    pub async fn start(program: &str, count: usize, url: &str, limit: &str, pace: Pace) -> Self {
        let mut children = Vec::new();
        let mut outputs = Vec::new();
        for _ in 0..count {
            let mut command = Command::new(Path::new(program));
            command.args([url, limit, &pace.to_string()]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child =
                command.spawn().unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
            outputs.push(BufReader::new(child.stdout.take().expect("its stdout is piped")).lines());
            children.push(child);
        }
        let (log, mut readers) = (AttemptLog::default(), JoinSet::new());
        for mut output in outputs {
            let line = timeout(SOON, output.next_line()).await;
            assert!(
                matches!(&line, Ok(Ok(Some(line))) if line == READY),
                "a worker should be ready, it says {line:?}"
            );
            readers.spawn(read(output, log.clone()));
        }
        Self { log, children, readers }
    }

    /// Stops them: all attempts, in the order of their answers.
    ///
    /// # Panics
    ///
    /// When one does not end, or prints something else than attempts.
    pub async fn stop(mut self) -> Vec<Attempt> {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        timeout(SOON, self.readers.join_all()).await.expect("a worker that is told to stop ends");
        self.log.take()
    }

    /// Kills them: all attempts that they have printed.
    ///
    /// # Panics
    ///
    /// When one cannot be killed.
    pub async fn kill(&mut self) -> Vec<Attempt> {
        for child in &mut self.children {
            child.kill().await.expect("a child can be killed");
        }
        let readers = std::mem::take(&mut self.readers);
        timeout(SOON, readers.join_all()).await.expect("the output of a killed worker ends");
        self.log.take()
    }
}

/// Logs the attempts of one worker, to the end of its output.
async fn read(mut output: Lines<BufReader<ChildStdout>>, log: AttemptLog) {
    while let Some(line) = output.next_line().await.expect("the output of a worker is text") {
        log.push(line.parse().expect("a worker prints attempts"));
    }
}
