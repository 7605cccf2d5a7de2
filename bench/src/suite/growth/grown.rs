//! The result of a curve.

use topup_lab::{Summary, Table, count, short, wrapped};

use crate::{
    catalog::Curve,
    cli::choices::Choices,
    report::{bars, written},
    suite::bench::Bench,
};

/// Crates whose versions matter here.
pub(super) const CRATES: [&str; 3] = ["topup", "redis", "tokio"];
/// More rounds would take too long.
const MOST_ROUNDS: u32 = 3;

/// A table of all points, and a chart.
#[derive(Debug)]
pub(super) struct Grown {
    pub(super) table: Table,
    /// Figures as bars, for curves that have a chart.
    pub(super) chart: Option<Chart>,
    /// Points that were not reached, and why.
    pub(super) missing: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Chart {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<(String, Vec<f64>)>,
}

/// Bytes for each of `size`; for few, what Redis needs anyhow would be most of it.
pub(super) fn bytes_each(bytes: f64, size: usize) -> String {
    if size < 1_000 { "–".to_owned() } else { count(bytes / size as f64) }
}

/// Rounds of each point.
pub(super) fn rounds(choices: &Choices) -> u32 {
    choices.rounds().min(MOST_ROUNDS)
}

// === impl Grown ===

impl Grown {
    pub(super) fn section(&self, curve: Curve, bench: &Bench<'_>, redis: &str) -> String {
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
        if let Some(others) = Summary::of(bench.others.iter().copied()) {
            how.push_str(&format!(" Other programs had {} CPUs meanwhile.", others.text(short)));
        }
        text + "\n" + &wrapped(&how)
    }
}
