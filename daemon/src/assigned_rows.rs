//! Assignments of keys in files and tables: CSV, JSON with one object on each line, and rows of a database.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    io::{self, BufRead, Write},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use topup_wire::limit::{Assignment, Key, LimitName, Plans, Target};

use crate::{
    config::Instant,
    text::{grouped, utc},
};

/// The first row of a CSV file, which may be left out.
const TITLES: [&str; 3] = ["key", "plan", "until"];
/// Most wrong rows that are named.
const MOST_NAMED: usize = 20;
/// The end of the year 2255. Redis scripts count no later instants exactly.
const LATEST: u64 = 1 << 53;
/// Some programs write it before the text of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Assignments by key.
pub(crate) type Assignments = BTreeMap<String, Assignment>;

/// Rows as they are read, one by one.
#[derive(Debug)]
pub(crate) struct Rows<'p> {
    limit: LimitName,
    plans: &'p Plans,
    /// The word for the place of a row: `line` or `row`.
    unit: &'static str,
    most: usize,
    /// The names of the files, if there are several.
    files: Vec<String>,
    /// Each with its place: its file, and its line.
    read: BTreeMap<String, (Assignment, (usize, u64))>,
    errors: RowErrors,
}

/// All rows that are wrong. Nothing of the file or table is to be used then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowErrors {
    /// The first of them: `line 3: no plan silver`.
    first: Vec<String>,
    count: usize,
}

/// A row with its texts as they stand there.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) plan: String,
    /// An instant with its time zone, or Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
}

/// A row in JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRow {
    key: Value,
    plan: Value,
    #[serde(default)]
    until: Value,
}

// === impl Rows ===

impl<'p> Rows<'p> {
    /// No rows yet, of assignments to these `plans` of `limit`. More than `most` rows are an error.
    pub(crate) fn new(limit: LimitName, plans: &'p Plans, unit: &'static str, most: usize) -> Self {
        let (files, read, errors) = (Vec::new(), BTreeMap::new(), RowErrors::default());
        Self { limit, plans, unit, most, files, read, errors }
    }

    /// Reads all rows of a text, which is one of several files if it has a name.
    pub(crate) fn read(&mut self, mut text: impl BufRead, file: Option<String>) -> io::Result<()> {
        self.files.extend(file);
        if text.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            text.consume(BYTE_ORDER_MARK.len());
        }
        let first = text.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_json = matches!(first, Some(b'{' | b'['));
        if is_json {
            self.read_json(text)?;
        } else {
            self.read_csv(text);
        }
        Ok(())
    }

    fn read_json(&mut self, text: impl BufRead) -> io::Result<()> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line?;
            if !line.trim().is_empty() {
                self.add(number, Row::from_json(&line));
            }
        }
        Ok(())
    }

    fn read_csv(&mut self, text: impl BufRead) {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text);
        for (number, record) in reader.records().enumerate() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    self.add(line, Err(error.to_string()));
                    // The rest of a file that cannot be read is the same error again and again.
                    if error.is_io_error() {
                        return;
                    }
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
            self.add(line, row);
        }
    }

    /// Adds the row at `line` of the last file, from 1 on.
    pub(crate) fn add(&mut self, line: u64, row: Result<Row, String>) {
        let place = (self.files.len(), line);
        let named =
            |(file, line): (usize, u64)| match file.checked_sub(1).and_then(|last| self.files.get(last)) {
                Some(file) => format!("{file} {} {line}", self.unit),
                None => format!("{} {line}", self.unit),
            };
        match row.and_then(|row| self.checked(row)) {
            Err(problem) => self.errors.add(|| format!("{}: {problem}", named(place))),
            Ok((key, assignment)) => match self.read.entry(key) {
                Entry::Vacant(free) => drop(free.insert((assignment, place))),
                Entry::Occupied(taken) => {
                    let (key, (_, first)) = (taken.key(), taken.get());
                    let (place, first) = (named(place), named(*first));
                    self.errors.add(|| format!("{place}: key {key:?} has a row already, in {first}"));
                }
            },
        }
    }

    fn checked(&self, row: Row) -> Result<(String, Assignment), String> {
        if self.read.len() >= self.most {
            return Err(format!("there are more than {} rows", grouped(self.most as u64)));
        }
        Key::new(&row.key).map_err(|error| error.to_string())?;
        let target = row.plan.parse::<Target>().map_err(|error| error.to_string())?;
        check_target(&self.limit, self.plans, target)?;
        let until = row.until.filter(|until| !until.is_empty());
        let until = until.map(|until| instant(&until)).transpose()?;
        Ok((row.key, Assignment { target, until }))
    }

    /// Their assignments.
    ///
    /// # Errors
    /// All rows that are wrong.
    pub(crate) fn finish(self) -> Result<Assignments, RowErrors> {
        match self.errors.count {
            0 => Ok(self.read.into_iter().map(|(key, (assignment, _))| (key, assignment)).collect()),
            _ => Err(self.errors),
        }
    }
}

/// Refuses a plan that the limit `name` does not have.
pub(crate) fn check_target(name: &LimitName, plans: &Plans, target: Target) -> Result<(), String> {
    if plans.knows(target) {
        return Ok(());
    }
    let names: Vec<String> = plans.names().map(|name| name.to_string()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(format!("limit {name} has no plan {target}: its plans are {known}; others are exempt and deny"))
}

/// An instant of a row, in µs since the Unix epoch.
fn instant(text: &str) -> Result<u64, String> {
    let micros = match text.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(1_000_000),
        Err(_) => text.parse::<Instant>().map_err(|error| format!("{error}, or Unix seconds"))?.0,
    };
    if micros > LATEST { Err(format!("{text:?} is later than the year 2255")) } else { Ok(micros) }
}

// === impl Row ===

impl Row {
    /// The row of an object in JSON.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let advice = "write {\"key\": \"acme\", \"plan\": \"gold\"}";
        let row: JsonRow = serde_json::from_str(text).map_err(|error| format!("{error}: {advice}"))?;
        let word = |name: &str, value: Value| match value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(format!("{name} is neither a text nor a number: {advice}")),
        };
        let until = match row.until {
            Value::Null => None,
            until => Some(word("until", until)?),
        };
        Ok(Self { key: word("key", row.key)?, plan: word("plan", row.plan)?, until })
    }
}

// === impl RowErrors ===

impl RowErrors {
    fn add(&mut self, error: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(error());
        }
    }

    /// The first `most` of them, and the number of the others.
    fn lines(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.first.iter().take(most).cloned().collect();
        if self.count > lines.len() {
            lines.push(format!("and {} more", grouped((self.count - lines.len()) as u64)));
        }
        lines
    }

    /// A few of them, in one line.
    pub(crate) fn in_one_line(&self) -> String {
        self.lines(3).join("; ")
    }
}

impl fmt::Display for RowErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines(MOST_NAMED).join("\n"))
    }
}

/// Writes rows that [`Rows`] reads.
///
/// # Errors
/// Errors of `out`.
pub(crate) fn write_rows(out: &mut impl Write, assigned: &Assignments, as_json: bool) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Assignments, RowErrors> {
        let plans = Plans::new(["gold".parse().unwrap()], []);
        let mut rows = Rows::new("user".parse().unwrap(), &plans, "line", 10);
        rows.read(text.as_bytes(), None).unwrap();
        rows.finish()
    }

    fn places(text: &str) -> Vec<String> {
        let errors = read(text).unwrap_err();
        assert_eq!(errors.count, errors.first.len());
        errors.first.iter().map(|error| error.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let odd = "a \"b\",\nc".to_owned();
        let until = Some(1_796_083_200_000_000);
        let gold = Assignment { target: "gold".parse().unwrap(), until };
        let all: Assignments =
            [(odd, gold), ("acme".to_owned(), Assignment { target: Target::Deny, until: None })].into();
        for as_json in [false, true] {
            let mut out = Vec::new();
            write_rows(&mut out, &all, as_json).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(read(&text), Ok(all.clone()), "{text}");
            assert_eq!(read(&format!("\u{feff}{text}")), Ok(all.clone()), "{text}");
        }
        assert_eq!(read(""), Ok(Assignments::new()));
        let bare = read("acme,gold\n\n other , exempt \n").unwrap();
        assert_eq!(bare.len(), 2);
    }

    #[test]
    fn an_end_is_an_instant_or_unix_seconds() {
        let same = "{\"key\": 7, \"plan\": \"gold\", \"until\": 1796083200}";
        for text in
            ["7,gold,1796083200", "7,gold,2026-12-01T00:00:00Z", "7,gold,2026-12-01T01:00:00+01:00", same]
        {
            let until = read(text).unwrap()["7"].until;
            assert_eq!(until, Some(1_796_083_200_000_000), "{text}");
        }
        assert_eq!(read("{\"key\": \"a\", \"plan\": \"gold\", \"until\": null}").unwrap()["a"].until, None);
        assert_eq!(places("a,gold,2026-12-01T00:00:00\nb,gold,99999999999"), ["line 1", "line 2"]);
    }

    #[test]
    fn every_wrong_row_is_named_with_its_line() {
        let text = "key,plan\nacme,gold\nacme,deny\n,gold\nx\nx,silver\ny,gold,tomorrow\nz,go ld\na,b,c,d\n";
        assert_eq!(places(text), [3, 4, 5, 6, 7, 8, 9].map(|line| format!("line {line}")));
        let text =
            "{\"key\": \"a\", \"plan\": \"gold\"}\n{\"key\": 7}\nnothing\n{\"key\": \"b\", \"plan\": \"x\"}";
        assert_eq!(places(text), ["line 2", "line 3", "line 4"]);
        assert!(read(text).unwrap_err().to_string().contains("line 4: limit user has no plan x"));
        let many: String = (0..50).map(|i| format!("{i},silver\n")).collect();
        let errors = read(&many).unwrap_err();
        assert_eq!(errors.to_string().lines().count(), MOST_NAMED + 1);
        assert!(errors.in_one_line().ends_with("; and 47 more"), "{}", errors.in_one_line());
        let many: String = (0..12).map(|i| format!("{i},gold\n")).collect();
        assert!(read(&many).unwrap_err().to_string().contains("line 11: there are more than 10 rows"));
    }
}
