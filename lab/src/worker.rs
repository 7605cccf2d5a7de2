//! The worker's side of a [`WorkerPool`](crate::WorkerPool): orders on standard input, answers on standard output.

use std::io::Write;

use anyhow::Context;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};

/// The line of a worker that is connected and waits for orders.
pub const READY: &str = "ready";
/// The beginning of the last line of a worker that cannot go on.
pub const FAILED: &str = "failed: ";

/// Orders, line by line of standard input.
#[derive(Debug)]
pub struct Orders(Lines<BufReader<Stdin>>);

/// Runs `work` on one thread. An error is told to the parent as well as returned.
///
/// # Errors
/// When `work` fails, or no runtime can be made.
pub fn run(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worked = runtime.block_on(work);
    // A read of standard input may still be under way, in a thread that needs no waiting for.
    runtime.shutdown_background();
    if let Err(error) = &worked {
        say_line(&format!("{FAILED}{error:#}").replace('\n', " "))?;
    }
    worked
}

/// Writes a line to the parent.
///
/// # Errors
/// When the parent does not listen.
pub fn say_line(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("the parent does not listen")
}

/// Writes `message` to the parent, as a line of JSON.
///
/// # Errors
/// As [`say_line`].
pub fn say(message: &impl Serialize) -> anyhow::Result<()> {
    say_line(&serde_json::to_string(message)?)
}

// === impl Orders ===

impl Orders {
    /// Reads standard input from now on.
    #[expect(clippy::new_without_default, reason = "standard input is read by one reader only")]
    pub fn new() -> Self {
        Self(BufReader::new(stdin()).lines())
    }

    /// Reads the next line; `None` at the end.
    ///
    /// # Errors
    /// When standard input cannot be read.
    pub async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        Ok(self.0.next_line().await?)
    }

    /// Reads the next line as JSON; `None` at the end.
    ///
    /// # Errors
    /// When the line is not a `T`.
    pub async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let Some(line) = self.next_line().await? else { return Ok(None) };
        Ok(Some(serde_json::from_str(&line).with_context(|| format!("not an order: {line:.80}"))?))
    }

    /// Reads the next line as JSON.
    ///
    /// # Errors
    /// As [`next`](Self::next), and when there is no further line.
    pub async fn expect<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        self.next().await?.context("there are no orders")
    }
}
