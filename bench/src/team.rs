//! Workers, started for one measurement and gone after it.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    cell::{Cell, Found, Seen},
    cli::Programs,
    clock::Stopwatch,
    leash, machine,
    peer::Peer,
    rules::Rule,
    stage::Stage,
    worker::FAILED,
};

/// Connecting and asking for every key once takes at most this.
const READY_WITHIN: Duration = Duration::from_secs(40);
/// From the end of the time to the result.
const SLACK: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Worker {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Killed when dropped.
    child: Child,
}

/// Measures `cell` on an empty Redis; where each key is a limit of its own, on one where these are published.
pub(crate) async fn measure(stage: &mut Stage, found: &Programs, cell: &Cell) -> anyhow::Result<Found> {
    if cell.rule == Rule::Apart {
        return measure_as_it_is(stage, found, cell).await;
    }
    stage.clear().await?;
    let leased = cell.peer == Peer::TopupLeased;
    stage.published(&cell.rule.limit(cell.keyed(), leased), cell.keyed().then_some("key-0")).await?;
    measure_as_it_is(stage, found, cell).await
}

/// Measures `cell` on whatever is in Redis.
pub(crate) async fn measure_as_it_is(
    stage: &mut Stage,
    found: &Programs,
    cell: &Cell,
) -> anyhow::Result<Found> {
    let mut workers = Vec::new();
    for _ in 0..cell.processes {
        workers.push(Worker::start(stage.url(), found, cell)?);
    }
    for worker in &mut workers {
        let line = timeout(READY_WITHIN, worker.hear()).await.context("it does not get ready")??;
        ensure!(line == "ready", "it is not ready, but says {line:.80}");
    }
    let (before, busy, daemon) = (stage.meter().await?, machine::busy()?, stage.daemon_used());
    let watch = Stopwatch::start();
    for worker in &mut workers {
        worker.input.write_all(b"go\n").await?;
    }
    let mut seen: Vec<Seen> = Vec::new();
    for worker in &mut workers {
        let line = timeout(cell.time + SLACK, worker.hear()).await.context("it hangs")??;
        seen.push(serde_json::from_str(&line)?);
    }
    let (redis, busy) = (stage.meter().await?.since(&before), machine::busy()? - busy);
    let ours = redis.cpu / 1e6 + seen.iter().map(|seen| seen.cpu).sum::<f64>() + stage.daemon_used() - daemon;
    let others = ((busy - ours) / watch.elapsed().as_secs_f64()).max(0.0);
    for worker in workers {
        leash::end(worker.child).await;
    }
    Ok(Found::new(&seen, redis, others))
}

// === impl Worker ===

impl Worker {
    fn start(url: &str, found: &Programs, cell: &Cell) -> anyhow::Result<Self> {
        let (program, first) = program(found, cell.peer)?;
        let mut command = leash::command(&program, true)?;
        command.args(first).args(["--redis", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (capacity, rate) = (cell.rule.capacity().to_string(), cell.rule.per_second().to_string());
        if matches!(cell.peer, Peer::Limits | Peer::RateLimiterFlexible) {
            command.args(["--capacity", &capacity, "--rate", &rate]);
        } else {
            let rule = clap::ValueEnum::to_possible_value(&cell.rule).context("a rule without a name")?;
            command.args(["--peer", &cell.peer.name(), "--rule", rule.get_name()]);
        }
        command.arg("--keys").arg(cell.keys.to_string()).arg("--tasks").arg(cell.tasks.to_string());
        command.arg("--seconds").arg(cell.time.as_secs_f64().to_string());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        Ok(Self { input, output, child })
    }

    /// What it says next.
    async fn hear(&mut self) -> anyhow::Result<String> {
        let line = self.output.next_line().await?.context("it has ended, see above")?;
        match line.strip_prefix(FAILED) {
            Some(error) => bail!("{error}"),
            None => Ok(line),
        }
    }
}

/// What to run for `peer`, and its first arguments.
fn program(found: &Programs, peer: Peer) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let foreign = |name: &str| found.foreign.as_ref().map(|folder| folder.join(name)).context("no --foreign");
    Ok(match peer {
        Peer::Limits => (found.python.clone().context("no --python")?, vec![foreign("python_limits.py")?]),
        Peer::RateLimiterFlexible => {
            let modules = found.node.clone().context("no --node")?;
            ("node".into(), vec![foreign("node_rate_limiter_flexible.cjs")?, "--modules".into(), modules])
        }
        _ => (std::env::current_exe()?, vec!["worker".into()]),
    })
}
