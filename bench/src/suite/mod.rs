//! What is measured, in which order.

mod above;
mod accuracy;
mod algorithms;
mod below;
mod full;
mod growth;
mod latency;
mod leases;
mod overload;
mod refill;
mod speed;

pub(crate) use growth::{Curve, micro};

use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use topup_measure::{Spread, Table, short, wrapped};

use crate::{
    cli::Choices,
    cpu,
    fixture::Fixture,
    limiter::Limiter,
    measurement::{Found, Measurement},
    pool,
    report::{Surroundings, answer, put, tell, written},
};

/// Tables that belong together, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    Speed,
    Latency,
    Below,
    Algorithms,
    Leases,
    Overload,
    Full,
    Accuracy,
    Refill,
}

/// Crates whose versions matter.
const COMPARED: [&str; 6] = ["topup", "redis", "limitador", "trypema", "governor", "tokio"];
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
    cpu::prefer();
    let mut fixture = Fixture::start(&choices.found.topupd, choices.found.redis_cell.as_deref()).await?;
    let redis = fixture.redis_version().await?;
    if choices.growth {
        return growth::all(&mut Bench { fixture, choices, others: Vec::new() }, &redis).await;
    }
    let wanted = Limiter::value_variants().iter().filter(|limiter| choices.wants(**limiter));
    let left_out = wanted
        .filter_map(|limiter| Some(format!("{} ({})", limiter.name(), limiter.absent(&choices.found)?)))
        .collect();
    let around = Surroundings { redis, left_out };
    for limiter in &around.left_out {
        tell(&format!("left out: {limiter}"));
    }
    let mut bench = Bench { fixture, choices, others: Vec::new() };
    for suite in choices.suites() {
        bench.others.clear();
        let tables = suite.measure(&mut bench).await?;
        let how = written_by(suite, &bench, &around);
        let mut sections: Vec<String> = tables.iter().map(ToString::to_string).collect();
        if let Some(last) = sections.last_mut() {
            last.push_str(&format!("\n{how}"));
        }
        for section in &sections {
            answer(section);
        }
        // A suite that ends is on the page, whatever becomes of the next.
        if let Some(docs) = choices.docs.as_deref().filter(|_| choices.whole()) {
            put(docs, "benchmarks.md", include_str!("../report/preface.md"), &sections, &titles())?;
        }
    }
    Ok(())
}

/// Sections of the page, in their order.
fn titles() -> Vec<&'static str> {
    Suite::value_variants().iter().flat_map(|suite| suite.titles().iter().copied()).collect()
}

/// A line that says what `suite` was measured by.
fn written_by(suite: Suite, bench: &Bench<'_>, around: &Surroundings) -> String {
    let choices = bench.choices;
    let offered = match suite {
        Suite::Below | Suite::Algorithms => format!(" --offered {}", choices.offered),
        _ => String::new(),
    };
    let command =
        format!("scripts/bench --only {} {}{offered}", suite.name(), choices.options(choices.rounds()));
    let mut how = written(&command, &around.redis, &COMPARED, &choices.found.versions);
    if suite == Suite::Speed && !around.left_out.is_empty() {
        how.push_str(&format!(" Left out: {}.", around.left_out.join("; ")));
    }
    if let Some(others) = Spread::of(bench.others.iter().copied()) {
        how.push_str(&format!(" Other programs had {} CPUs meanwhile.", others.text(short)));
    }
    wrapped(&how)
}

// === impl Suite ===

impl Suite {
    /// As given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it is measured only when it is named.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::Below | Self::Full)
    }

    /// Of its tables.
    const fn titles(self) -> &'static [&'static str] {
        match self {
            Self::Speed => &speed::TITLES,
            Self::Latency => &[latency::TITLE],
            Self::Below => &below::TITLES,
            Self::Algorithms => &[algorithms::TITLE],
            Self::Leases => &[leases::TITLE],
            Self::Overload => &[overload::TITLE],
            Self::Full => &[full::TITLE],
            Self::Accuracy => &[accuracy::TITLE],
            Self::Refill => &[refill::TITLE],
        }
    }

    async fn measure(self, bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
        Ok(match self {
            Self::Speed => speed::all(bench).await?,
            Self::Latency => vec![latency::table(bench).await?],
            Self::Below => below::tables(bench).await?,
            Self::Algorithms => vec![algorithms::table(bench).await?],
            Self::Leases => vec![leases::table(bench).await?],
            Self::Overload => vec![overload::table(bench).await?],
            Self::Full => vec![full::table(bench).await?],
            Self::Accuracy => vec![accuracy::table(bench).await?],
            Self::Refill => vec![refill::table(bench).await?],
        })
    }
}

// === impl Bench ===

impl Bench<'_> {
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
