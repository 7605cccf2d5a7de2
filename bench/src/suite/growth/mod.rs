//! How costs grow: with keys, tasks, processes, active buckets and limits.

mod buckets;
mod limits;
mod takes;

use std::{io, path::Path};

use anyhow::ensure;
use clap::ValueEnum;
use topup_measure::{Spread, Table, count, short, wrapped};

use super::Bench;
use crate::{
    cli::Choices,
    report::{self, answer, bars, installed_redis, written},
};

/// Whose versions matter here.
const CRATES: [&str; 3] = ["topup", "redis", "tokio"];
/// The last section of the page.
const CLOSE_UP: &str = "Close up";
/// More rounds than this take longer than anybody waits.
const MOST_ROUNDS: u32 = 3;

/// One curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Curve {
    Keys,
    Tasks,
    Processes,
    Buckets,
    Limits,
}

/// What a curve came to.
#[derive(Debug)]
struct Grown {
    table: Table,
    /// Where figures as lines of a text are worth it: what they are of, and for each size one of each.
    chart: Option<Chart>,
    /// Points that were not reached, and why.
    missing: Vec<String>,
}

#[derive(Debug)]
struct Chart {
    header: Vec<String>,
    rows: Vec<(String, Vec<f64>)>,
}

// === impl Curve ===

impl Curve {
    /// As given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Keys => "Keys",
            Self::Tasks => "Tasks",
            Self::Processes => "Processes",
            Self::Buckets => "Active buckets",
            Self::Limits => "Limits",
        }
    }

    async fn measure(self, bench: &mut Bench<'_>) -> anyhow::Result<Grown> {
        match self {
            Self::Keys | Self::Tasks | Self::Processes => Ok(takes::grown(bench, self).await),
            Self::Buckets => buckets::grown(bench).await,
            Self::Limits => limits::grown(bench).await,
        }
    }
}

/// Measures the curves that are asked for. On the page, each takes the place of what was measured of it before.
pub(super) async fn all(bench: &mut Bench<'_>, redis: &str) -> anyhow::Result<()> {
    for curve in Curve::value_variants().iter().filter(|curve| bench.choices.wants_curve(**curve)) {
        bench.others.clear();
        let section = curve.measure(bench).await?.section(*curve, bench, redis);
        put(section, bench.choices.docs.as_deref())?;
    }
    Ok(())
}

/// Takes what the benchmarks of `benches/micro` say, from standard input, for a section of the same page.
pub(crate) fn micro(docs: Option<&Path>) -> anyhow::Result<()> {
    let said = io::read_to_string(io::stdin())?;
    let tree = said.trim();
    ensure!(tree.contains("median"), "this is not what divan says of benchmarks: {said:.200}");
    let note = "Parts of a decision, on one thread. *combine* has many tasks that take of one bucket at once, and \
                *item/s* counts them. *denial* is a take that is answered from memory. *encode* writes a request \
                into the buffer. *handle* makes the name of a bucket. *lease* is a `try_take` of a token that was \
                taken ahead.";
    let written = written("scripts/bench --micro", &installed_redis(), &CRATES, &[]);
    let section =
        format!("## {CLOSE_UP}\n\n{}\n```text\n{tree}\n```\n\n{}", wrapped(note), wrapped(&written));
    put(section, docs)
}

/// Prints a section, and puts it on the page.
fn put(section: String, docs: Option<&Path>) -> anyhow::Result<()> {
    answer(&section);
    let Some(docs) = docs else { return Ok(()) };
    let titles: Vec<&str> =
        Curve::value_variants().iter().map(|curve| curve.title()).chain([CLOSE_UP]).collect();
    report::put(docs, "growth.md", include_str!("../../report/growth.md"), &[section], &titles)
}

/// Bytes for each of `size`; for few, what Redis needs anyhow would be most of it.
fn bytes_each(bytes: f64, size: usize) -> String {
    if size < 1_000 { "–".to_owned() } else { count(bytes / size as f64) }
}

/// So many rounds of each point.
fn rounds(choices: &Choices) -> u32 {
    choices.rounds().min(MOST_ROUNDS)
}

// === impl Grown ===

impl Grown {
    fn section(&self, curve: Curve, bench: &Bench<'_>, redis: &str) -> String {
        let mut text = self.table.to_string();
        if let Some(Chart { header, rows }) = &self.chart {
            text.push_str(&format!("\n```text\n{}```\n", bars(header, rows)));
        }
        if !self.missing.is_empty() {
            text.push_str(&format!("\nNot reached:\n\n- {}\n", self.missing.join("\n- ")));
        }
        let options = bench.choices.options(rounds(bench.choices));
        let command = format!("scripts/bench --growth --only {} {options}", curve.name());
        let mut how = written(&command, redis, &CRATES, &[]);
        if let Some(others) = Spread::of(bench.others.iter().copied()) {
            how.push_str(&format!(" Other programs had {} CPUs meanwhile.", others.text(short)));
        }
        text + "\n" + &wrapped(&how)
    }
}
