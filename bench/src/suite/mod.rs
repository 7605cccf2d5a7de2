//! The suites, measured one after another.

mod above;
mod accuracy;
mod against_raw;
mod algorithms;
mod below;
mod bench;
mod full;
pub(crate) mod growth;
mod latency;
mod leases;
mod medians;
mod observers;
mod overload;
mod refill;
mod several;
mod speed;
mod watched;

use std::process::ExitCode;

use clap::ValueEnum;
use topup_lab::{
    Summary, Table,
    output::{answer, tell},
    short, unless_signalled, wrapped,
};

use crate::{
    catalog::Suite,
    cli::choices::Choices,
    cpu, fixture,
    limiter::kind::Limiter,
    report::{Surroundings, put, written},
};
use bench::Bench;

/// Crates whose versions matter.
const COMPARED: [&str; 6] = ["topup", "redis", "limitador", "trypema", "governor", "tokio"];

pub(crate) fn run(choices: &Choices) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // A signal drops the work, and with it every child.
    match runtime.block_on(unless_signalled(all(choices)))? {
        Ok(done) => done.map(|()| ExitCode::SUCCESS),
        Err(interrupted) => Ok(interrupted.into()),
    }
}

async fn all(choices: &Choices) -> anyhow::Result<()> {
    choices.check()?;
    cpu::prefer();
    let (topupd, module) = (&choices.found.topupd, choices.found.redis_cell.as_deref());
    let mut fixture = fixture::start(topupd, module, choices.hz).await?;
    let redis = fixture.redis_version().await?;
    if choices.growth {
        return growth::all(&mut Bench { fixture, choices, others: Vec::new() }, &redis).await;
    }
    let wanted = Limiter::value_variants().iter().filter(|limiter| choices.wants(**limiter));
    let left_out = wanted
        .filter_map(|limiter| Some(format!("{} ({})", limiter.name(), choices.found.lack(*limiter)?)))
        .collect();
    let around = Surroundings { redis, left_out };
    for limiter in &around.left_out {
        tell(&format!("left out: {limiter}"));
    }
    let mut bench = Bench { fixture, choices, others: Vec::new() };
    for suite in choices.suites() {
        bench.others.clear();
        let tables = measure(suite, &mut bench).await?;
        let how = written_by(suite, &bench, &around);
        let mut sections: Vec<String> = tables.iter().map(ToString::to_string).collect();
        if let Some(last) = sections.last_mut() {
            last.push_str(&format!("\n{how}"));
        }
        for section in &sections {
            answer(section);
        }
        // A suite is on the page when it ends, even if the next one fails.
        if let Some(docs) = choices.docs.as_deref().filter(|_| choices.whole()) {
            put(docs, "benchmarks.md", include_str!("../report/preface.md"), &sections, &titles())?;
        }
    }
    Ok(())
}

/// Sections of the page, in their order.
fn titles() -> Vec<&'static str> {
    Suite::value_variants().iter().flat_map(|suite| titles_of(*suite).iter().copied()).collect()
}

/// A line that says what `suite` was measured by.
fn written_by(suite: Suite, bench: &Bench<'_>, around: &Surroundings) -> String {
    let choices = bench.choices;
    let load = match suite {
        Suite::Below => format!("{} --offered {}", choices.points(), choices.offered),
        Suite::Algorithms => format!(" --offered {}", choices.offered),
        _ => String::new(),
    };
    let command =
        format!("scripts/bench --only {} {}{load}", suite.name(), choices.options(choices.rounds()));
    let mut how = written(&command, &around.redis, &COMPARED, &choices.found.versions);
    if suite == Suite::Speed && !around.left_out.is_empty() {
        how.push_str(&format!(" Left out: {}.", around.left_out.join("; ")));
    }
    if let Some(others) = Summary::of(bench.others.iter().copied()) {
        how.push_str(&format!(" Other programs had {} CPUs meanwhile.", others.text(short)));
    }
    wrapped(&how)
}

/// Titles of the tables of `suite`.
const fn titles_of(suite: Suite) -> &'static [&'static str] {
    match suite {
        Suite::Speed => &speed::TITLES,
        Suite::Latency => &[latency::TITLE],
        Suite::Below => &below::TITLES,
        Suite::Algorithms => &[algorithms::TITLE],
        Suite::Leases => &[leases::TITLE],
        Suite::Several => &several::TITLES,
        Suite::Overload => &[overload::TITLE],
        Suite::Full => &[full::TITLE],
        Suite::Accuracy => &[accuracy::TITLE],
        Suite::Refill => &[refill::TITLE],
        Suite::Watched => &[watched::TITLE],
    }
}

async fn measure(suite: Suite, bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
    Ok(match suite {
        Suite::Speed => speed::all(bench).await?,
        Suite::Latency => vec![latency::table(bench).await?],
        Suite::Below => below::tables(bench).await?,
        Suite::Algorithms => vec![algorithms::table(bench).await?],
        Suite::Leases => vec![leases::table(bench).await?],
        Suite::Several => several::tables(bench).await?,
        Suite::Overload => vec![overload::table(bench).await?],
        Suite::Full => vec![full::table(bench).await?],
        Suite::Accuracy => vec![accuracy::table(bench).await?],
        Suite::Refill => vec![refill::table(bench).await?],
        Suite::Watched => vec![watched::table(bench).await?],
    })
}
