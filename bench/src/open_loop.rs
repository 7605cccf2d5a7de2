//! Loads whose takes come when they are due: worker processes, and what they and Redis did in each phase.

use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use tokio::time::{sleep, timeout};
use topup_measure::Meter;

use crate::{
    cli::Programs,
    clock::Stopwatch,
    fixture::Fixture,
    limiter::Limiter,
    machine,
    measurement::{Answered, SCRIPTS},
    monitor,
    pool::{self, Worker},
    rules::Rule,
    schedule::Phase,
};

/// From the end of the time to the result.
const SLACK: Duration = Duration::from_secs(15);
/// Seconds for which Redis is asked to tell every command.
const LOOK: f64 = 0.25;

/// An open-loop load on one limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OpenLoad {
    pub(crate) limiter: Limiter,
    pub(crate) rule: Rule,
    pub(crate) keys: usize,
    pub(crate) processes: u32,
    pub(crate) seed: u64,
}

/// The processes of an open-loop load.
#[derive(Debug)]
pub(crate) struct Generators(Vec<Worker>);

/// Figures of a measured phase.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) seen: Answered,
    /// Work of Redis between two readings.
    redis: Meter,
    /// Seconds between these readings.
    between: f64,
    /// Commands for each take that are no script, nor called by one.
    pub(crate) native: f64,
    /// CPUs that other programs had meanwhile.
    pub(crate) others: f64,
}

// === impl Generators ===

impl Generators {
    /// Starts them on an empty Redis.
    pub(crate) async fn start(
        fixture: &mut Fixture,
        found: &Programs,
        load: &OpenLoad,
    ) -> anyhow::Result<Self> {
        pool::prepare(fixture, load.limiter, load.rule, true).await?;
        let worker = |part: u32| {
            let more = [
                ("limiter", load.limiter.name()),
                ("rule", load.rule.argument()),
                ("keys", load.keys.to_string()),
                ("seed", load.seed.to_string()),
                ("part", part.to_string()),
                ("parts", load.processes.to_string()),
            ];
            Worker::start(pool::program(found, load.limiter)?, fixture.url(), &more)
        };
        let mut workers = (0..load.processes).map(worker).collect::<anyhow::Result<Vec<_>>>()?;
        for worker in &mut workers {
            worker.ready().await?;
        }
        Ok(Self(workers))
    }

    /// Has them begin `phases`, one after the other.
    pub(crate) async fn begin(&mut self, phases: &[Phase]) -> anyhow::Result<()> {
        let line = phases.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        for worker in &mut self.0 {
            worker.tell(&line).await?;
        }
        Ok(())
    }

    /// Results of all `phases`, in their order, when the last has ended.
    pub(crate) async fn finish(&mut self, phases: &[Phase]) -> anyhow::Result<Vec<Answered>> {
        let time = Duration::from_secs_f64(phases.iter().map(|phase| phase.seconds).sum());
        let heard = try_join_all(self.0.iter_mut().map(Worker::hear));
        let heard = timeout(time + SLACK, heard).await.context("it hangs")??;
        let all: Vec<Vec<Answered>> =
            heard.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
        let of = |phase: usize| all.iter().filter_map(|seen| seen.get(phase).copied()).collect::<Vec<_>>();
        Ok((0..phases.len()).map(|phase| Answered::together(&of(phase))).collect())
    }

    /// The same from beginning to end.
    pub(crate) async fn run(&mut self, phases: &[Phase]) -> anyhow::Result<Vec<Answered>> {
        self.begin(phases).await?;
        self.finish(phases).await
    }

    pub(crate) async fn end(self) {
        for worker in self.0 {
            worker.end().await;
        }
    }
}

/// Measures `rate` takes a second for `seconds`, after `warm` seconds of the same.
pub(crate) async fn measure(
    fixture: &mut Fixture,
    found: &Programs,
    load: &OpenLoad,
    rate: f64,
    (warm, seconds): (f64, f64),
) -> anyhow::Result<Measured> {
    let mut generators = Generators::start(fixture, found, load).await?;
    // The last phase is there to be looked at: a Redis that tells every command is slower.
    let phases = [warm, seconds, 1.5 * LOOK].map(|seconds| Phase { rate, seconds });
    let watch = Stopwatch::start();
    generators.begin(&phases).await?;
    sleep(Duration::from_secs_f64(warm).saturating_sub(watch.elapsed())).await;
    let (before, from) = (fixture.meter().await?, watch.elapsed());
    let (busy, daemon) = (machine::busy()?, fixture.daemon_used());
    sleep(Duration::from_secs_f64(warm + seconds).saturating_sub(watch.elapsed())).await;
    let (redis, until) = (fixture.meter().await?.since(&before), watch.elapsed());
    let (busy, daemon) = (machine::busy()? - busy, fixture.daemon_used() - daemon);
    let native = match load.limiter.form() {
        Some(_) => monitor::native(fixture.url(), Duration::from_secs_f64(LOOK)).await? / (rate * LOOK),
        None => f64::NAN,
    };
    let seen = generators.finish(&phases).await?;
    generators.end().await;
    let between = (until - from).as_secs_f64();
    let others = ((busy - redis.cpu / 1e6 - seen[1].cpu - daemon) / between).max(0.0);
    Ok(Measured { seen: seen[1], redis, between, native, others })
}

// === impl Measured ===

impl Measured {
    /// Redis CPU µs for each decision.
    pub(crate) fn cpu(&self) -> f64 {
        self.redis.cpu / self.decisions()
    }

    /// CPU µs of the asking processes for each decision.
    pub(crate) fn client_cpu(&self) -> f64 {
        self.seen.cpu * 1e6 / self.seen.decided.max(1) as f64
    }

    /// Commands for each decision, those that scripts call included.
    pub(crate) fn commands(&self) -> f64 {
        self.redis.calls() / self.decisions()
    }

    /// Scripts for each decision.
    pub(crate) fn scripts(&self) -> f64 {
        self.redis.of(&SCRIPTS).0 / self.decisions()
    }

    /// µs of a script, as Redis itself counts them: without the network.
    pub(crate) fn script_time(&self) -> f64 {
        let (calls, micros) = self.redis.of(&SCRIPTS);
        if calls > 0.0 { micros / calls } else { f64::NAN }
    }

    /// Decisions made between the two readings of what Redis has done: not quite those of the phase.
    fn decisions(&self) -> f64 {
        (self.seen.rate() * self.between).max(1.0)
    }
}
