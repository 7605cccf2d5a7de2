//! The same as one table, for a pipe.

use super::{
    super::table::{Table, printable},
    model::most_denied,
};
use crate::report::{PauseRow, StatusReport};

/// The report as lines: problems, pauses and limits.
pub(super) fn render(report: &StatusReport) -> String {
    let problem = |problem: &crate::report::Problem| format!("problem: {}", printable(&problem.what));
    let mut lines: Vec<String> = report.problems.iter().map(problem).collect();
    for PauseRow { limit, key, until, .. } in &report.pauses {
        let key = key.as_ref().map(|key| format!(" key {}", printable(key))).unwrap_or_default();
        lines.push(format!("paused: {limit}{key} until {until}"));
    }
    let mut table = Table::new(&["limit", "mode"], &["rate", "allowed/s", "denied/s", "tokens", "active"]);
    for row in &report.limits {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let pace = |pace: Option<f64>| pace.map_or_else(|| "-".to_owned(), |pace| format!("{pace:.1}"));
        table.row([
            row.name.clone(),
            row.mode.to_owned(),
            row.rate.clone().unwrap_or_else(|| "calendar".to_owned()),
            pace(row.allowed_per_second),
            pace(row.denied_per_second),
            number(row.tokens),
            number(row.active),
        ]);
    }
    lines.push(table.render());
    for (limit, key, denied) in most_denied(&report.limits) {
        lines.push(format!("denied in the last minutes: {limit} key {} {denied}", printable(key)));
    }
    lines.join("\n")
}
