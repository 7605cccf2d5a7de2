//! Rows of limiters that are measured each beside a bare `DECR`.

use topup_lab::{Summary, Table, count, short};

use crate::measurement::Found;

pub(super) const HEADER: [&str; 10] = [
    "",
    "÷ raw (min–max)",
    "decisions/s",
    "allowed %",
    "p50 µs",
    "p99 µs",
    "Redis CPU µs",
    "own CPU µs",
    "commands",
    "scripts",
];

/// Adds the medians of `found`, each with the decisions a second of raw in its round. Nothing where none was measured.
pub(super) fn add_row(table: &mut Table, label: String, found: &[(Found, f64)]) {
    let Some(ratio) = Summary::of(found.iter().map(|(found, raw)| found.rate() / raw)) else { return };
    let median = |of: &dyn Fn(&Found) -> f64, text: fn(f64) -> String| {
        let figures = Summary::of(found.iter().map(|(found, _)| of(found)));
        figures.map_or_else(String::new, |summary| text(summary.median))
    };
    let allowed = |found: &Found| 100.0 * found.seen.allowed as f64 / found.seen.decisions.max(1) as f64;
    table.row(
        label,
        [
            ratio.text(short),
            median(&Found::rate, count),
            median(&allowed, short),
            median(&|found| found.seen.p50, short),
            median(&|found| found.seen.p99, short),
            median(&Found::cpu, short),
            median(&Found::client_cpu, short),
            median(&Found::commands, short),
            median(&Found::scripts, short),
        ],
    );
}
