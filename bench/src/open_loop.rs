//! Loads whose takes come when they are due: worker processes, and what they and Redis did in each phase.

use std::time::Duration;

use tokio::time::sleep;
use topup_lab::{Fixture, Monitor, RedisCounters, WorkerPool, clock::Stopwatch, machine};

use crate::{
    cli::programs::Programs,
    closed_loop::{READY_WITHIN, prepare, with_options},
    cpu,
    limiter::kind::Limiter,
    measurement::{Answered, SCRIPTS},
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
pub(crate) struct LoadGenerators(WorkerPool);

/// Figures of a measured phase.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) seen: Answered,
    /// Work of Redis between two readings.
    redis: RedisCounters,
    /// Seconds between these readings.
    between: f64,
    /// Commands for each take that are no script, nor called by one.
    pub(crate) native: f64,
    /// CPUs that other programs had meanwhile.
    pub(crate) others: f64,
}

// === impl LoadGenerators ===

impl LoadGenerators {
    /// Starts them on an empty Redis.
    pub(crate) async fn start(
        fixture: &mut Fixture,
        found: &Programs,
        load: &OpenLoad,
    ) -> anyhow::Result<Self> {
        prepare(fixture, load.limiter, load.rule, true).await?;
        let command = |part: u32| {
            let options = [
                ("limiter", load.limiter.name()),
                ("rule", load.rule.argument()),
                ("keys", load.keys.to_string()),
                ("seed", load.seed.to_string()),
                ("part", part.to_string()),
                ("parts", load.processes.to_string()),
            ];
            Ok(with_options(found.worker(load.limiter)?, fixture.url(), &options))
        };
        let commands = (0..load.processes).map(command).collect::<anyhow::Result<Vec<_>>>()?;
        let mut workers = cpu::beside_redis(|| WorkerPool::start(commands))??;
        workers.ready(READY_WITHIN).await?;
        Ok(Self(workers))
    }

    /// Begins `phases`, one after the other.
    pub(crate) async fn begin(&mut self, phases: &[Phase]) -> anyhow::Result<()> {
        self.0.tell_line(&phases.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")).await
    }

    /// Returns the results of all `phases`, in their order, when the last has ended.
    pub(crate) async fn finish(&mut self, phases: &[Phase]) -> anyhow::Result<Vec<Answered>> {
        let time = Duration::from_secs_f64(phases.iter().map(|phase| phase.seconds).sum());
        let all: Vec<Vec<Answered>> = self.0.hear_one(time + SLACK).await?;
        let of = |phase: usize| all.iter().filter_map(|seen| seen.get(phase).copied()).collect::<Vec<_>>();
        Ok((0..phases.len()).map(|phase| Answered::together(&of(phase))).collect())
    }

    /// The same from beginning to end.
    pub(crate) async fn run(&mut self, phases: &[Phase]) -> anyhow::Result<Vec<Answered>> {
        self.begin(phases).await?;
        self.finish(phases).await
    }

    pub(crate) async fn end(self) {
        self.0.kill().await;
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
    let mut generators = LoadGenerators::start(fixture, found, load).await?;
    // The last phase is there to be looked at: a Redis that tells every command is slower.
    let phases = [warm, seconds, 1.5 * LOOK].map(|seconds| Phase { rate, seconds });
    let watch = Stopwatch::start();
    generators.begin(&phases).await?;
    sleep(Duration::from_secs_f64(warm).saturating_sub(watch.elapsed())).await;
    let (before, from) = (fixture.counters().await?, watch.elapsed());
    let (busy, daemon) = (machine::busy()?, fixture.daemon_cpu());
    sleep(Duration::from_secs_f64(warm + seconds).saturating_sub(watch.elapsed())).await;
    let (redis, until) = (fixture.counters().await?.since(&before), watch.elapsed());
    let (busy, daemon) = (machine::busy()? - busy, fixture.daemon_cpu() - daemon);
    let native = match load.limiter.form() {
        Some(_) => {
            let monitor = Monitor::start(&fixture.redis().socket()).await?;
            sleep(Duration::from_secs_f64(LOOK)).await;
            monitor.sent().native as f64 / (rate * LOOK)
        }
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
