//! Worker processes: each has a client of its own and asks for tokens until it is told to stop.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::{Attempt, SOON};

/// What a worker says when it has connected.
pub const READY: &str = "ready";

/// Running worker processes; killed on drop.
#[derive(Debug)]
#[must_use = "workers end when this is dropped"]
pub struct Workers(Vec<(Child, BufReader<ChildStdout>)>);

// === impl Workers ===

impl Workers {
    /// Starts `count` processes of `program` (`worker/main.rs`), each of which takes one token of `limit` every
    /// `every`; returns when all have connected.
    ///
    /// # Panics
    ///
    /// When one does not start or connect.
    pub async fn start(program: &str, count: usize, url: &str, limit: &str, every: Duration) -> Self {
        let mut workers = Vec::new();
        for _ in 0..count {
            let mut command = Command::new(Path::new(program));
            command.args([url, limit, &every.as_micros().to_string()]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child =
                command.spawn().unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
            let stdout = BufReader::new(child.stdout.take().expect("its stdout is piped"));
            workers.push((child, stdout));
        }
        for (_, stdout) in &mut workers {
            let mut line = String::new();
            let said = timeout(SOON, stdout.read_line(&mut line)).await;
            assert!(said.is_ok() && line.trim_end() == READY, "a worker should be ready, it says {line:?}");
        }
        Self(workers)
    }

    /// Stops them: all they have tried, in the order in which they were answered.
    ///
    /// # Panics
    ///
    /// When one does not tell.
    pub async fn stop(mut self) -> Vec<Attempt> {
        for (child, _) in &mut self.0 {
            drop(child.stdin.take());
        }
        let mut attempts: Vec<Attempt> = Vec::new();
        for (_, stdout) in &mut self.0 {
            let mut told = String::new();
            timeout(SOON, stdout.read_to_string(&mut told))
                .await
                .expect("a worker ends soon")
                .expect("it tells");
            attempts
                .extend(told.lines().map(|line| line.parse::<Attempt>().expect("a worker tells attempts")));
        }
        attempts.sort_by_key(|attempt| attempt.received);
        attempts
    }
}
