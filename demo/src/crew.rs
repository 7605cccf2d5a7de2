//! The worker processes, as the demo sees them.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout, Command},
    sync::mpsc,
    time::timeout,
};

use crate::{child::Child, plan::Limit, protocol::Report};

/// A worker starts within some 10 ms; this is for a machine that is busy with something else.
const START_WITHIN: Duration = Duration::from_secs(5);
/// A worker that is told to end has at most one answer of Redis to wait for.
const END_WITHIN: Duration = Duration::from_secs(2);

/// The worker processes.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<(Child, Option<ChildStdin>)>,
    heard: mpsc::UnboundedReceiver<(usize, Heard)>,
    /// One that has ended too early.
    gone: Option<usize>,
}

/// What came from a worker.
#[derive(Debug)]
enum Heard {
    Line(String),
    End,
}

// === impl Crew ===

impl Crew {
    /// Starts `count` workers on the Redis at `url`, and returns when all are connected.
    pub(crate) async fn start(count: usize, url: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("where is this program?")?;
        let (tell, heard) = mpsc::unbounded_channel();
        let mut workers = Vec::new();
        for number in 0..count {
            let mut command = Command::new(&program);
            command.arg("worker").arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = Child::spawn(&mut command).context("cannot start a worker")?;
            let stdin = child.stdin.take();
            tokio::spawn(listen(number, child.stdout.take().context("a worker's output")?, tell.clone()));
            workers.push((child, stdin));
        }
        let mut crew = Self { workers, heard, gone: None };
        let ready = async {
            for _ in 0..count {
                crew.next().await?;
            }
            anyhow::Ok(())
        };
        timeout(START_WITHIN, ready).await.context("the workers did not start in time")??;
        Ok(crew)
    }

    /// Tells every worker to ask `limit` so often that together they overload it.
    pub(crate) async fn ask(&mut self, limit: &Limit) -> anyhow::Result<()> {
        for (number, (_, stdin)) in self.workers.iter_mut().enumerate() {
            let orders: String = limit.orders(number).map(|order| format!("{order}\n")).collect();
            let stdin = stdin.as_mut().context("the workers were told to end")?;
            stdin.write_all(orders.as_bytes()).await.context("a worker does not listen any more")?;
        }
        Ok(())
    }

    /// The next report, and of which worker. Safe to drop and call again.
    ///
    /// # Errors
    /// When a worker has ended.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(usize, Report)> {
        let number = match self.gone {
            Some(number) => number,
            None => match self.heard.recv().await.context("no worker is left")? {
                (number, Heard::Line(line)) => return Ok((number, read(&line)?)),
                (number, Heard::End) => *self.gone.insert(number),
            },
        };
        let status = self.workers[number].0.wait().await?;
        bail!("worker {} ended by itself ({status})", number + 1)
    }

    /// Lets the workers end: what they still had to say.
    pub(crate) async fn end(mut self) -> anyhow::Result<Vec<(usize, Report)>> {
        for (_, stdin) in &mut self.workers {
            drop(stdin.take());
        }
        let mut last = Vec::new();
        let end = async {
            // The channel closes when all outputs have.
            while let Some((number, heard)) = self.heard.recv().await {
                if let Heard::Line(line) = heard {
                    last.push((number, read(&line)?));
                }
            }
            for (number, (child, _)) in self.workers.iter_mut().enumerate() {
                let status: ExitStatus = child.wait().await?;
                anyhow::ensure!(status.success(), "worker {} failed ({status})", number + 1);
            }
            anyhow::Ok(())
        };
        timeout(END_WITHIN, end).await.context("the workers did not end in time")??;
        Ok(last)
    }
}

async fn listen(number: usize, output: ChildStdout, tell: mpsc::UnboundedSender<(usize, Heard)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let _ = tell.send((number, Heard::Line(line)));
    }
    let _ = tell.send((number, Heard::End));
}

fn read(line: &str) -> anyhow::Result<Report> {
    line.parse().with_context(|| format!("a worker said {line:?}"))
}
