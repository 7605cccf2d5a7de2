//! What is measured, in which order.

mod accuracy;
mod growth;
mod latency;
mod overload;
mod refill;
mod speed;

pub(crate) use growth::{Curve, micro};

use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use topup_measure::{Spread, Table, short};

use crate::{
    cli::Choices,
    fixture::Fixture,
    limiter::Limiter,
    measurement::{Found, Measurement},
    pool,
    report::{Page, Surroundings, answer, tell},
};

/// CPUs that other programs may have while a figure is taken.
const QUIET: f64 = 0.1;
/// How often a figure is taken before the quietest has to do.
const ATTEMPTS: u32 = 3;
/// As many keys as in every comparison.
const KEYS: usize = 10_000;

/// One measurement after another.
#[derive(Debug)]
struct Bench<'a> {
    fixture: Fixture,
    choices: &'a Choices,
    /// CPUs that other programs had, for each figure taken.
    others: Vec<f64>,
}

pub(crate) fn run(choices: &Choices) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Whatever runs is dropped, and with it everything that was started.
        tokio::select! {
            done = all(choices) => done.map(|()| ExitCode::SUCCESS),
            _ = interrupt.recv() => Ok(ExitCode::from(130)),
            _ = terminate.recv() => Ok(ExitCode::from(143)),
        }
    })
}

async fn all(choices: &Choices) -> anyhow::Result<()> {
    choices.check()?;
    let mut fixture = Fixture::start(&choices.found.topupd, choices.found.redis_cell.as_deref()).await?;
    let redis = fixture.redis_version().await?;
    if choices.growth {
        return growth::all(&mut Bench { fixture, choices, others: Vec::new() }, &redis).await;
    }
    let wanted = Limiter::value_variants().iter().filter(|limiter| choices.wants(**limiter));
    let left_out = wanted
        .filter_map(|limiter| Some(format!("{} ({})", limiter.name(), limiter.absent(&choices.found)?)));
    let around = Surroundings { redis, left_out: left_out.collect() };
    for limiter in &around.left_out {
        tell(&format!("left out: {limiter}"));
    }
    let mut page = Page::new(include_str!("../report/preface.md"), choices, &around);
    let mut bench = Bench { fixture, choices, others: Vec::new() };
    let tables = bench.compare().await?;
    if let Some(others) = Spread::of(bench.others) {
        page.say(&format!("Other programs had {} CPUs meanwhile.", others.text(short)));
    }
    for table in &tables {
        answer(&table.to_string());
        page.add(table);
    }
    if let Some(docs) = &choices.docs {
        page.write(docs, "benchmarks.md")?;
        tell("written: docs/benchmarks.md");
    }
    Ok(())
}

// === impl Bench ===

impl Bench<'_> {
    async fn compare(&mut self) -> anyhow::Result<Vec<Table>> {
        if self.choices.only_refill() {
            return Ok(vec![refill::table(self).await?]);
        }
        let mut tables = speed::all(self).await?;
        tables.push(latency::table(self).await?);
        tables.push(overload::table(self).await?);
        tables.push(accuracy::table(self).await?);
        tables.push(refill::table(self).await?);
        Ok(tables)
    }

    /// Whether `limiter` is to be measured, and can be.
    fn has(&self, limiter: Limiter) -> bool {
        self.choices.wants(limiter) && limiter.absent(&self.choices.found).is_none()
    }

    /// Measures `measurement` on an empty Redis; again, when other programs had more of this machine than they should, and the
    /// quietest counts. A limiter that fails is left out of the table, with a word.
    async fn measure(&mut self, measurement: &Measurement) -> Option<Found> {
        match self.try_measure(measurement).await {
            Ok(found) => Some(found),
            Err(error) => {
                tell(&format!("{}: {error:#}", measurement.limiter.name()));
                None
            }
        }
    }

    /// The same; a limiter that fails is the caller's to report.
    async fn try_measure(&mut self, measurement: &Measurement) -> anyhow::Result<Found> {
        let mut quietest: Option<Found> = None;
        for _ in 0..ATTEMPTS {
            let found = pool::measure(&mut self.fixture, &self.choices.found, measurement).await?;
            if quietest.as_ref().is_none_or(|quietest| found.others < quietest.others) {
                quietest = Some(found);
            }
            if self.choices.quick || quietest.as_ref().is_some_and(|quietest| quietest.others < QUIET) {
                break;
            }
        }
        let quietest = quietest.context("nothing was measured")?;
        self.others.push(quietest.others);
        Ok(quietest)
    }
}
