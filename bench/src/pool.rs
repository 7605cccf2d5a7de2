//! Workers, started for one measurement and gone after it.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    child_process,
    cli::Programs,
    clock::Stopwatch,
    fixture::Fixture,
    limiter::Limiter,
    machine,
    measurement::{Found, Measurement, Seen},
    rules::Rule,
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

/// Measures `measurement` on an empty Redis; where each key is a limit of its own, on one where these are published.
pub(crate) async fn measure(
    fixture: &mut Fixture,
    found: &Programs,
    measurement: &Measurement,
) -> anyhow::Result<Found> {
    if measurement.rule == Rule::Apart {
        return measure_as_it_is(fixture, found, measurement).await;
    }
    fixture.clear().await?;
    let leased = measurement.limiter == Limiter::TopupLeased;
    fixture
        .published(
            &measurement.rule.limit(measurement.keyed(), leased),
            measurement.keyed().then_some("key-0"),
        )
        .await?;
    measure_as_it_is(fixture, found, measurement).await
}

/// Measures `measurement` on whatever is in Redis.
pub(crate) async fn measure_as_it_is(
    fixture: &mut Fixture,
    found: &Programs,
    measurement: &Measurement,
) -> anyhow::Result<Found> {
    let mut workers = Vec::new();
    for _ in 0..measurement.processes {
        workers.push(Worker::start(fixture.url(), found, measurement)?);
    }
    for worker in &mut workers {
        let line = timeout(READY_WITHIN, worker.hear()).await.context("it does not get ready")??;
        ensure!(line == "ready", "it is not ready, but says {line:.80}");
    }
    let (before, busy, daemon) = (fixture.meter().await?, machine::busy()?, fixture.daemon_used());
    let watch = Stopwatch::start();
    for worker in &mut workers {
        worker.input.write_all(b"go\n").await?;
    }
    let mut seen: Vec<Seen> = Vec::new();
    for worker in &mut workers {
        let line = timeout(measurement.time + SLACK, worker.hear()).await.context("it hangs")??;
        seen.push(serde_json::from_str(&line)?);
    }
    let (redis, busy) = (fixture.meter().await?.since(&before), machine::busy()? - busy);
    let ours =
        redis.cpu / 1e6 + seen.iter().map(|seen| seen.cpu).sum::<f64>() + fixture.daemon_used() - daemon;
    let others = ((busy - ours) / watch.elapsed().as_secs_f64()).max(0.0);
    for worker in workers {
        child_process::end(worker.child).await;
    }
    Ok(Found::new(&seen, redis, others))
}

// === impl Worker ===

impl Worker {
    fn start(url: &str, found: &Programs, measurement: &Measurement) -> anyhow::Result<Self> {
        let (program, first) = program(found, measurement.limiter)?;
        let mut command = child_process::command(&program, true)?;
        command.args(first).args(["--redis", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (capacity, rate) =
            (measurement.rule.capacity().to_string(), measurement.rule.per_second().to_string());
        if matches!(measurement.limiter, Limiter::Limits | Limiter::RateLimiterFlexible) {
            command.args(["--capacity", &capacity, "--rate", &rate]);
        } else {
            let rule =
                clap::ValueEnum::to_possible_value(&measurement.rule).context("a rule without a name")?;
            command.args(["--limiter", &measurement.limiter.name(), "--rule", rule.get_name()]);
        }
        command
            .arg("--keys")
            .arg(measurement.keys.to_string())
            .arg("--tasks")
            .arg(measurement.tasks.to_string());
        command.arg("--seconds").arg(measurement.time.as_secs_f64().to_string());
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

/// What to run for `limiter`, and its first arguments.
fn program(found: &Programs, limiter: Limiter) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let foreign = |name: &str| found.foreign.as_ref().map(|folder| folder.join(name)).context("no --foreign");
    Ok(match limiter {
        Limiter::Limits => (found.python.clone().context("no --python")?, vec![foreign("python_limits.py")?]),
        Limiter::RateLimiterFlexible => {
            let modules = found.node.clone().context("no --node")?;
            ("node".into(), vec![foreign("node_rate_limiter_flexible.cjs")?, "--modules".into(), modules])
        }
        _ => (std::env::current_exe()?, vec!["worker".into()]),
    })
}
