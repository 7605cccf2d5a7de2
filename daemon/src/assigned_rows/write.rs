//! Rows of assignments as they are written.

use std::io::Write;

use topup_wire::limit::Assignment;

use super::row::{Row, TITLES};
use crate::text::utc;

/// Writes rows that [`Rows`] reads.
///
/// # Errors
/// Errors of `out`.
pub(crate) fn write_rows<'r>(
    out: &mut impl Write,
    assigned: impl Iterator<Item = (&'r str, Assignment)>,
    as_json: bool,
) -> anyhow::Result<()> {
    let row = |(key, assignment): (&str, Assignment)| Row {
        key: key.to_owned(),
        plan: assignment.target.to_string(),
        until: assignment.until.map(utc),
    };
    if as_json {
        for row in assigned.map(row) {
            writeln!(out, "{}", serde_json::to_string(&row)?)?;
        }
        return Ok(());
    }
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(TITLES)?;
    for Row { key, plan, until } in assigned.map(row) {
        csv.write_record([key, plan, until.unwrap_or_default()])?;
    }
    Ok(csv.flush()?)
}
