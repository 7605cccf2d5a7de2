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
    rules::{Form, Rule},
    worker::FAILED,
};

/// Connecting and asking for every key once takes at most this.
const READY_WITHIN: Duration = Duration::from_secs(40);
/// From the end of the time to the result.
const SLACK: Duration = Duration::from_secs(10);

/// A worker process.
#[derive(Debug)]
pub(crate) struct Worker {
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
    prepare(fixture, measurement.limiter, measurement.rule, measurement.keyed()).await?;
    measure_as_it_is(fixture, found, measurement).await
}

/// Empties Redis, and waits until the limit is published that `limiter` is to be asked for, if it has one.
pub(crate) async fn prepare(
    fixture: &mut Fixture,
    limiter: Limiter,
    rule: Rule,
    keyed: bool,
) -> anyhow::Result<()> {
    fixture.clear().await?;
    // The daemon publishes its limits after every clearing. Publishing is over before any limiter is measured.
    let form = limiter.form().unwrap_or(Form::TokenBucket);
    fixture.published(&rule.limit(keyed, form), keyed.then_some("key-0")).await
}

/// Measures `measurement` on whatever is in Redis.
pub(crate) async fn measure_as_it_is(
    fixture: &mut Fixture,
    found: &Programs,
    measurement: &Measurement,
) -> anyhow::Result<Found> {
    let mut workers = Vec::new();
    for _ in 0..measurement.processes {
        workers.push(Worker::closed(fixture.url(), found, measurement)?);
    }
    for worker in &mut workers {
        worker.ready().await?;
    }
    let (before, busy, daemon) = (fixture.meter().await?, machine::busy()?, fixture.daemon_used());
    let watch = Stopwatch::start();
    for worker in &mut workers {
        worker.tell("go").await?;
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
        worker.end().await;
    }
    Ok(Found::new(&seen, redis, others))
}

// === impl Worker ===

impl Worker {
    /// Starts `program` with the arguments that come `first`, those that all have in common, and `more`.
    pub(crate) fn start(
        (program, first): (PathBuf, Vec<PathBuf>),
        url: &str,
        more: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let mut command = child_process::command(&program, true)?;
        command.args(first).args(["--redis", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        for (name, value) in more {
            command.arg(format!("--{name}")).arg(value);
        }
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        Ok(Self { input, output, child })
    }

    fn closed(url: &str, found: &Programs, measurement: &Measurement) -> anyhow::Result<Self> {
        let Measurement { limiter, rule, keys, tasks, time, .. } = *measurement;
        let mut more = match limiter {
            Limiter::Limits | Limiter::RateLimiterFlexible => {
                vec![("capacity", rule.capacity().to_string()), ("rate", rule.per_second().to_string())]
            }
            _ => vec![("limiter", limiter.name()), ("rule", rule.argument())],
        };
        more.extend([("keys", keys.to_string()), ("tasks", tasks.to_string())]);
        more.push(("seconds", time.as_secs_f64().to_string()));
        Self::start(program(found, limiter)?, url, &more)
    }

    /// Returns when it is ready.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        let line = timeout(READY_WITHIN, self.hear()).await.context("it does not get ready")??;
        ensure!(line == "ready", "it is not ready, but says {line:.80}");
        Ok(())
    }

    /// Gives it a line.
    pub(crate) async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        Ok(self.input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Its next line.
    pub(crate) async fn hear(&mut self) -> anyhow::Result<String> {
        let line = self.output.next_line().await?.context("it has ended, see above")?;
        match line.strip_prefix(FAILED) {
            Some(error) => bail!("{error}"),
            None => Ok(line),
        }
    }

    pub(crate) async fn end(self) {
        child_process::end(self.child).await;
    }
}

/// Program of a worker for `limiter`, and its first arguments.
pub(crate) fn program(found: &Programs, limiter: Limiter) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
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
