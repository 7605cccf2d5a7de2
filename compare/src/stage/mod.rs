//! What everything is compared on: a Redis, whatever refills, and the workers.

mod child;
mod keys;
mod redis;
mod refiller;

use std::{future::pending, time::Duration};

use anyhow::Context;
use futures_util::future::try_join_all;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use topup_measure::Meter;

pub use child::{Child, follow};
pub use redis::Server;
pub use refiller::Refillers;

use crate::{
    clock::{Micros, SECOND, now, sleep_until},
    limiter::Contender,
    take::Take,
    traffic::{Fault, Pattern, TICK, Traffic},
    worker::{Hammer, Hammered, Orders, READY, Work},
};

/// Connecting takes milliseconds; this is for a machine that is busy with something else.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// From the end of the time to the last answer and its report.
const SLACK: Duration = Duration::from_secs(30);
/// From now to the beginning: all workers have heard of it by then.
const SOON: Micros = 60_000;
/// The most by which a worker's clock is wrong, where clocks are.
const SKEW: i64 = 2_000_000;

/// A Redis and all who work on it. Everything that was started ends with this.
#[derive(Debug)]
pub struct Stage {
    server: Server,
    refillers: Refillers,
    workers: u32,
    tick: Micros,
}

/// What came of a traffic.
#[derive(Clone, Debug)]
pub struct Act {
    /// When it began.
    pub begin: Micros,
    /// What to add to this machine's instants to have Redis's.
    pub offset: i64,
    /// What each contender was asked, and said.
    pub takes: Vec<(Contender, Vec<Take>)>,
}

// === impl Stage ===

impl Stage {
    /// A stage on `server` with so many workers.
    pub fn new(server: Server, workers: u32) -> Self {
        Self { server, refillers: Refillers::default(), workers, tick: TICK }
    }

    /// Has whatever refills do so every `tick`, from the next act on: a config knows whole ms, at least one.
    pub fn refill_every(&mut self, tick: Micros) {
        self.tick = (tick / 1_000).max(1) * 1_000;
    }

    /// The Redis.
    pub const fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// What runs to refill.
    pub const fn refillers(&self) -> &Refillers {
        &self.refillers
    }

    /// Clears what was left behind, and starts whatever `contenders` need: ready when this returns.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn set(&mut self, contenders: &[Contender], keys: u32, twice: bool) -> anyhow::Result<()> {
        self.refillers.end().await;
        self.server.clear().await?;
        self.refillers.start(self.server.url(), contenders, keys, self.tick).await?;
        if twice {
            self.refillers.start_again().await?;
        }
        Ok(())
    }

    /// Plays `traffic` to all of `contenders` at once.
    ///
    /// # Errors
    /// When a worker or what refills fails.
    pub async fn play(
        &mut self,
        traffic: &Traffic,
        contenders: Vec<Contender>,
        seed: u64,
    ) -> anyhow::Result<Act> {
        self.set(&contenders, traffic.key_count(), traffic.fault == Fault::TwoDaemons).await?;
        let work = Work::Play { contenders: contenders.clone(), traffic: traffic.clone(), seed };
        let skew = if traffic.skewed { SKEW } else { 0 };
        let mut crew = self.crew(&work, skew, traffic.workers.unwrap_or(self.workers)).await?;
        let offset = self.server.clock_offset().await?;
        let mut begin = now() + SOON;
        if matches!(traffic.pattern, Pattern::WindowEdge | Pattern::Certain) {
            // Windows of Redis's clock begin when this does.
            let redis = begin.saturating_add_signed(offset);
            begin += redis.next_multiple_of(SECOND) - redis;
        }
        let faults = async {
            self.disturb(traffic.fault, begin, traffic.time).await?;
            pending().await
        };
        let reports: Vec<Vec<Vec<Take>>> = tokio::select! {
            reports = crew.perform(begin, traffic.time, contenders.len()) => reports?,
            failed = faults => return failed,
        };
        let of = |index: usize| reports.iter().flat_map(|report| report[index].iter().copied()).collect();
        let takes = contenders.into_iter().enumerate().map(|(index, contender)| (contender, of(index)));
        Ok(Act { begin, offset, takes: takes.collect() })
    }

    /// Plays `traffic` to one contender: what it said, and what it cost Redis from the first take to the last.
    ///
    /// # Errors
    /// As [`Stage::play`].
    pub async fn play_metered(
        &mut self,
        traffic: &Traffic,
        contender: Contender,
    ) -> anyhow::Result<(Act, Meter)> {
        self.set(std::slice::from_ref(&contender), traffic.key_count(), false).await?;
        let work = Work::Play { contenders: vec![contender.clone()], traffic: traffic.clone(), seed: 0 };
        let mut crew = self.crew(&work, 0, self.workers).await?;
        let offset = self.server.clock_offset().await?;
        let before = self.server.meter().await?;
        let begin = now() + SOON / 2;
        let takes = crew.perform::<Vec<Take>>(begin, traffic.time, 1).await?;
        let meter = self.server.meter().await?.since(&before);
        Ok((Act { begin, offset, takes: vec![(contender, takes.concat().concat())] }, meter))
    }

    /// Has all workers hammer: what came of it.
    ///
    /// # Errors
    /// When a worker fails.
    pub async fn hammer(&mut self, hammer: &Hammer) -> anyhow::Result<(Hammered, Meter)> {
        let mut crew = self.crew(&Work::Hammer(hammer.clone()), 0, self.workers).await?;
        let before = self.server.meter().await?;
        let reports: Vec<Vec<Hammered>> = crew.perform(now() + SOON / 2, hammer.time, 1).await?;
        let meter = self.server.meter().await?.since(&before);
        let all = reports.into_iter().flatten().fold(Hammered::default(), Hammered::plus);
        Ok((all, meter))
    }

    /// Ends whatever was started and removes what was written.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn end(&mut self) -> anyhow::Result<()> {
        self.refillers.end().await;
        self.server.clear().await
    }

    async fn crew(&self, work: &Work, skew: i64, workers: u32) -> anyhow::Result<Crew> {
        let start = async |worker: u32| {
            // From the one end to the other.
            let part = i64::from(worker) * 2 * skew / i64::from(workers.max(2) - 1) - skew;
            let redis = self.server.url().to_owned();
            let orders = Orders { redis, worker, workers, skew: part, work: work.clone() };
            let mut child = Child::start("worker", &[])?;
            child.tell(&orders).await?;
            let ready: String =
                timeout(READY_WITHIN, child.hear()).await.context("a worker does not connect")??;
            anyhow::ensure!(ready == READY, "a worker said {ready:?}");
            anyhow::Ok(child)
        };
        Ok(Crew(try_join_all((0..workers).map(start)).await?))
    }

    async fn disturb(&mut self, fault: Fault, begin: Micros, time: Micros) -> anyhow::Result<()> {
        match fault {
            Fault::None | Fault::TwoDaemons => Ok(()),
            Fault::DaemonAway => {
                sleep_until(begin + time / 3).await;
                self.refillers.end().await;
                sleep_until(begin + time * 2 / 3).await;
                self.refillers.start_again().await
            }
            Fault::RedisRestart => {
                sleep_until(begin + time / 2).await;
                self.server.restart().await
            }
        }
    }
}

/// The workers of one act.
struct Crew(Vec<Child>);

// === impl Crew ===

impl Crew {
    /// Lets them begin: `lines` reports of each.
    async fn perform<T: DeserializeOwned>(
        &mut self,
        begin: Micros,
        time: Micros,
        lines: usize,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        for child in &mut self.0 {
            child.tell(&begin).await?;
        }
        let within = Duration::from_micros(time) + SLACK;
        let hear = async |child: &mut Child| {
            let mut heard = Vec::new();
            for _ in 0..lines {
                heard.push(timeout(within, child.hear()).await.context("a worker hangs")??);
            }
            anyhow::Ok(heard)
        };
        try_join_all(self.0.iter_mut().map(hear)).await
    }
}

/// As a line of JSON.
fn line(what: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(what)? + "\n")
}
