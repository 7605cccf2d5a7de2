//! Rows of limiters that are measured each beside a bare `DECR`.

use topup_lab::{Table, count, short};

use super::medians::{BesideRaw, Medians, ratio_to_raw};
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

/// Adds the medians of `found`. Nothing where none was measured.
pub(super) fn add_row(table: &mut Table, label: String, found: &[BesideRaw]) {
    let Some(ratio) = ratio_to_raw(found) else { return };
    let medians = Medians::of(found.iter().map(|(found, _)| found));
    table.row(
        label,
        [
            ratio.text(short),
            medians.text(Found::rate, count),
            medians.allowed().map_or_else(String::new, |allowed| short(100.0 * allowed)),
            medians.text(|found| found.seen.p50, short),
            medians.text(|found| found.seen.p99, short),
        ]
        .into_iter()
        .chain(medians.costs()),
    );
}
