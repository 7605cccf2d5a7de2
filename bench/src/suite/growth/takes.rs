//! Takes, by how many keys, tasks and processes there are.

use topup_lab::{Table, count, output::tell, short};

use super::grown::{Chart, Grown, rounds};
use crate::{
    catalog::Curve,
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::Rule,
    suite::{
        bench::{Bench, KEYS},
        medians::{BesideRaw, Medians, ratio_to_raw},
    },
};

/// Whose curves are drawn; each is divided by the first.
const SERIES: [(Limiter, Rule, &str); 3] = [
    (Limiter::Raw, Rule::Deep, "raw"),
    (Limiter::Topup, Rule::Deep, "**below full**"),
    (Limiter::Topup, Rule::Under, "**back to full**"),
];
const HEADER: [&str; 9] = [
    "",
    "÷ raw (min–max)",
    "decisions/s",
    "p50 µs",
    "p99 µs",
    "Redis CPU µs",
    "own CPU µs",
    "scripts",
    "own memory, MB",
];

/// Every round of one series at one size: what it came to, and the decisions a second of raw just before.
type Rounds = Vec<BesideRaw>;

/// The figures of all rounds of a point.
pub(super) fn row(rounds: &Rounds) -> [String; 8] {
    let Some(ratio) = ratio_to_raw(rounds) else { return std::array::from_fn(|_| "–".to_owned()) };
    let medians = Medians::of(rounds.iter().map(|(found, _)| found));
    [
        ratio.text(short),
        medians.text(Found::rate, count),
        medians.text(|found| found.seen.p50, short),
        medians.text(|found| found.seen.p99, short),
        medians.text(Found::cpu, short),
        medians.text(Found::client_cpu, short),
        medians.text(Found::scripts, short),
        medians.text(|found| found.seen.memory / 1e6, short),
    ]
}

pub(super) async fn grown(bench: &mut Bench<'_>, curve: Curve) -> Grown {
    let (sizes, note): (&[usize], _) = match curve {
        Curve::Keys => (
            &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
            "256 tasks ask for keys at random. The client is told to remember twice as many buckets, and 65,536 at \
             least. *Own memory* is all that the asking process has, the names of the keys included, as raw has.",
        ),
        Curve::Tasks => (
            &[1, 4, 16, 64, 256, 1_024, 4_096],
            "The tasks of one process ask for 10,000 keys at random. The first column is their number.",
        ),
        _ => (
            &[1, 2, 4, 8],
            "Processes of 256 tasks ask for 10,000 keys at random. The first column is their number. They share the \
             CPUs that Redis leaves, so their latencies are those of waiting for a CPU. *Own CPU* is that of all of \
             them, *own memory* that of the largest.",
        ),
    };
    let shape = |limiter, rule, size| {
        let measurement = Measurement::new(limiter, rule, KEYS, bench.choices.time());
        match curve {
            Curve::Keys => Measurement { keys: size, ..measurement },
            Curve::Tasks => Measurement { tasks: size, ..measurement },
            _ => Measurement { processes: size, ..measurement },
        }
    };
    let cells: Vec<Vec<Measurement>> = sizes
        .iter()
        .map(|size| SERIES.map(|(limiter, rule, _)| shape(limiter, rule, *size)).into())
        .collect();
    let mut found: Vec<Vec<Rounds>> = vec![vec![Vec::new(); SERIES.len()]; sizes.len()];
    let mut missing = Vec::new();
    for round in 1..=rounds(bench.choices) {
        for ((cells, found), size) in cells.iter().zip(&mut found).zip(sizes) {
            tell(&format!("growth, round {round}: {} {}", count(*size as f64), curve.name()));
            let mut raw = f64::NAN;
            for ((measurement, found), (.., name)) in cells.iter().zip(found).zip(SERIES) {
                match bench.try_measure(measurement).await {
                    Ok(one) => {
                        if measurement.limiter == Limiter::Raw {
                            raw = one.rate();
                        }
                        found.push((one, raw));
                    }
                    Err(error) => {
                        missing.push(format!("{} {}, {name}: {error:#}", count(*size as f64), curve.name()));
                    }
                }
            }
        }
    }
    let mut table = Table::new(curve.title(), HEADER).note(note);
    for (series, (.., name)) in SERIES.iter().enumerate() {
        for (size, found) in sizes.iter().zip(&found) {
            table.row(format!("{name}, {}", count(*size as f64)), row(&found[series]));
        }
    }
    let ratio = |rounds: &Rounds| ratio_to_raw(rounds).map_or(0.0, |summary| summary.median);
    let names = SERIES[1..].iter().map(|(.., name)| name.replace('*', ""));
    let chart = Chart {
        header: std::iter::once("÷ raw".to_owned()).chain(names).collect(),
        rows: sizes
            .iter()
            .zip(&found)
            .map(|(size, found)| (count(*size as f64), found[1..].iter().map(ratio).collect()))
            .collect(),
    };
    Grown { table, chart: Some(chart), missing }
}
