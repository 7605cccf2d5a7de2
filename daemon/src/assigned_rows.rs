//! Assignments of keys in files: CSV, or JSON with one object on each line.

use std::{collections::BTreeMap, fmt, io::Write};

use serde::{Deserialize, Serialize};
use topup_wire::limit::{Assignment, Key, Target};

use crate::{config::Instant, text::utc};

/// The first row of a CSV file, which may be left out.
const TITLES: [&str; 3] = ["key", "plan", "until"];

/// A row that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowError {
    /// Its line, from 1 on.
    pub(crate) line: u64,
    /// The mistake.
    pub(crate) problem: String,
}

/// A row as it is written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Row {
    key: String,
    plan: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

/// The assignments of `text`. `check` refuses plans that the limit does not have.
///
/// # Errors
/// All rows that are wrong: nothing of the file is to be used.
pub(crate) fn read_rows(
    text: &str,
    check: impl Fn(Target) -> Result<(), String>,
) -> Result<BTreeMap<String, Assignment>, Vec<RowError>> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let rows = if is_json { json_rows(text) } else { csv_rows(text) };
    let (mut assigned, mut lines, mut errors) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (line, row) in rows {
        let checked = row.and_then(|row| checked(row, &check));
        match checked {
            Err(problem) => errors.push(RowError { line, problem }),
            Ok((key, assignment)) => {
                if let Some(first) = lines.insert(key.clone(), line) {
                    let problem = format!("key {key:?} has a row already, in line {first}");
                    errors.push(RowError { line, problem });
                }
                assigned.insert(key, assignment);
            }
        }
    }
    if errors.is_empty() { Ok(assigned) } else { Err(errors) }
}

/// Writes rows that [`read_rows`] reads.
///
/// # Errors
/// Errors of `out`.
pub(crate) fn write_rows(
    out: &mut impl Write,
    assigned: &BTreeMap<String, Assignment>,
    as_json: bool,
) -> anyhow::Result<()> {
    let row = |(key, assignment): (&String, &Assignment)| Row {
        key: key.clone(),
        plan: assignment.target.to_string(),
        until: assignment.until.map(utc),
    };
    if as_json {
        for row in assigned.iter().map(row) {
            writeln!(out, "{}", serde_json::to_string(&row)?)?;
        }
        return Ok(());
    }
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(TITLES)?;
    for Row { key, plan, until } in assigned.iter().map(row) {
        csv.write_record([key, plan, until.unwrap_or_default()])?;
    }
    Ok(csv.flush()?)
}

fn checked(row: Row, check: &impl Fn(Target) -> Result<(), String>) -> Result<(String, Assignment), String> {
    Key::new(&row.key).map_err(|error| error.to_string())?;
    let target = row.plan.parse::<Target>().map_err(|error| error.to_string())?;
    check(target)?;
    let until = row.until.filter(|until| !until.is_empty());
    let until = until.map(|until| until.parse::<Instant>()).transpose().map_err(|error| error.to_string())?;
    Ok((row.key, Assignment { target, until: until.map(|until| until.0) }))
}

fn json_rows(text: &str) -> Vec<(u64, Result<Row, String>)> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let row = |(number, line): (u64, &str)| {
        let row = serde_json::from_str::<Row>(line);
        (number, row.map_err(|error| format!("{error}: write {{\"key\": \"acme\", \"plan\": \"gold\"}}")))
    };
    lines.map(row).collect()
}

fn csv_rows(text: &str) -> Vec<(u64, Result<Row, String>)> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for (number, record) in reader.records().enumerate() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                rows.push((line, Err(error.to_string())));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        let cells: Vec<&str> = record.iter().collect();
        if number == 0 && cells.iter().zip(TITLES).all(|(cell, title)| *cell == title) {
            continue;
        }
        let row = match cells[..] {
            [key, plan] => Ok((key, plan, None)),
            [key, plan, until] => Ok((key, plan, Some(until.to_owned()))),
            _ => Err(format!("{} cells: write KEY,PLAN or KEY,PLAN,UNTIL", cells.len())),
        };
        let row = row.map(|(key, plan, until)| Row { key: key.to_owned(), plan: plan.to_owned(), until });
        rows.push((line, row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(target: Target) -> Result<(), String> {
        let is_known = ["gold", "exempt", "deny"].contains(&target.as_str());
        if is_known { Ok(()) } else { Err(format!("no plan {target}")) }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let odd = "a \"b\",\nc".to_owned();
        let until = Some(1_796_083_200_000_000);
        let gold = Assignment { target: "gold".parse().unwrap(), until };
        let all: BTreeMap<String, Assignment> =
            [(odd, gold), ("acme".to_owned(), Assignment { target: Target::Deny, until: None })].into();
        for as_json in [false, true] {
            let mut out = Vec::new();
            write_rows(&mut out, &all, as_json).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(read_rows(&text, known), Ok(all.clone()), "{text}");
        }
        assert_eq!(read_rows("", known), Ok(BTreeMap::new()));
        let bare = read_rows("acme,gold\n\n other , exempt \n", known).unwrap();
        assert_eq!(bare.len(), 2);
    }

    #[test]
    fn every_wrong_row_is_named_with_its_line() {
        let text = "key,plan\nacme,gold\nacme,deny\n,gold\nx\nx,silver\ny,gold,tomorrow\nz,go ld\na,b,c,d\n";
        let lines: Vec<u64> = read_rows(text, known).unwrap_err().iter().map(|error| error.line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 8, 9]);
        let text =
            "{\"key\": \"a\", \"plan\": \"gold\"}\n{\"key\": 7}\nnothing\n{\"key\": \"b\", \"plan\": \"x\"}";
        let errors = read_rows(text, known).unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(errors[2].to_string(), "line 4: no plan x");
    }
}
