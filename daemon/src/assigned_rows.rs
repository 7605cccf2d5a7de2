//! Assignments of keys in files and tables: CSV, JSON with one object on each line, and rows of a database.

mod errors;
mod row;

use std::io::{self, BufRead, Write};

use topup_wire::{
    assigned_keys::AssignedKeys,
    limit::{Assignment, Key, LimitName, Plans, Target},
};

use crate::{
    config::Instant,
    text::{grouped, utc},
};

pub(crate) use errors::RowErrors;
pub(crate) use row::Row;

/// The first row of a CSV file, which may be left out.
const TITLES: [&str; 3] = ["key", "plan", "until"];
/// The end of the year 2255. Redis scripts count no later instants exactly.
const LATEST: u64 = 1 << 53;
/// Some programs write it before the text of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Rows as they are read, one by one.
#[derive(Debug)]
pub(crate) struct Rows<'p> {
    limit: LimitName,
    plans: &'p Plans,
    /// The word for the place of a row: `line` or `row`.
    unit: &'static str,
    most: usize,
    /// The files, if they have names, and the mark before that of their first line.
    files: Vec<(String, u32)>,
    /// The mark of the last row. Marks go on from file to file.
    last: u32,
    /// Each with its mark.
    read: AssignedKeys,
    errors: RowErrors,
}

// === impl Rows ===

impl<'p> Rows<'p> {
    /// No rows yet, of assignments to these `plans` of `limit`. More than `most` rows are an error.
    pub(crate) fn new(limit: LimitName, plans: &'p Plans, unit: &'static str, most: usize) -> Self {
        let (files, read, errors) = (Vec::new(), AssignedKeys::default(), RowErrors::default());
        Self { limit, plans, unit, most, files, last: 0, read, errors }
    }

    /// Reads all rows of a text, which is one of several files if it has a name.
    pub(crate) fn read(&mut self, mut text: impl BufRead, file: Option<String>) -> io::Result<()> {
        self.files.extend(file.map(|name| (name, self.last)));
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
        let before = self.files.last().map_or(0, |(_, before)| *before);
        let mark = u32::try_from(line.max(1)).unwrap_or(u32::MAX).saturating_add(before);
        self.last = self.last.max(mark);
        let read = &mut self.read;
        let (limit, plans, most) = (&self.limit, self.plans, self.most);
        let added = row.and_then(|row| {
            if read.len() >= most {
                return Err(format!("there are more than {} rows", grouped(most as u64)));
            }
            let assignment = checked(limit, plans, &row)?;
            read.push(&row.key, assignment, mark).map_err(|error| error.to_string())
        });
        if let Err(problem) = added {
            let place = self.place(mark);
            self.errors.add(mark, || format!("{place}: {problem}"));
        }
    }

    /// The place of a row in words.
    fn place(&self, mark: u32) -> String {
        match self.files.iter().rfind(|(_, before)| *before < mark) {
            Some((file, before)) => format!("{file} {} {}", self.unit, mark - before),
            None => format!("{} {mark}", self.unit),
        }
    }

    /// Their assignments.
    ///
    /// # Errors
    /// All rows that are wrong.
    pub(crate) fn finish(mut self) -> Result<AssignedKeys, RowErrors> {
        let marks = self.read.sort();
        let mut errors = std::mem::take(&mut self.errors);
        for [mark, first] in marks {
            errors.add(mark, || {
                let key = self.read.marked(mark).unwrap_or_default();
                format!("{}: key {key:?} has a row already, in {}", self.place(mark), self.place(first))
            });
        }
        if errors.is_empty() { Ok(self.read) } else { Err(errors) }
    }
}

/// The assignment of a row.
fn checked(limit: &LimitName, plans: &Plans, row: &Row) -> Result<Assignment, String> {
    Key::new(&row.key).map_err(|error| error.to_string())?;
    let target = row.plan.parse::<Target>().map_err(|error| error.to_string())?;
    check_target(limit, plans, target)?;
    let until = row.until.as_deref().filter(|until| !until.is_empty());
    Ok(Assignment { target, until: until.map(instant).transpose()? })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AssignedKeys, RowErrors> {
        let plans = Plans::new(["gold".parse().unwrap()], []);
        let mut rows = Rows::new("user".parse().unwrap(), &plans, "line", 10);
        rows.read(text.as_bytes(), None).unwrap();
        rows.finish()
    }

    fn places(text: &str) -> Vec<String> {
        let errors = read(text).unwrap_err();
        assert_eq!(errors.count, errors.first.len());
        errors.first.iter().map(|(_, error)| error.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let odd = "a \"b\",\nc".to_owned();
        let until = Some(1_796_083_200_000_000);
        let gold = Assignment { target: "gold".parse().unwrap(), until };
        let all: AssignedKeys =
            [(odd, gold), ("acme".to_owned(), Assignment { target: Target::Deny, until: None })]
                .into_iter()
                .collect();
        for as_json in [false, true] {
            let mut out = Vec::new();
            write_rows(&mut out, all.iter(), as_json).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(read(&text), Ok(all.clone()), "{text}");
            assert_eq!(read(&format!("\u{feff}{text}")), Ok(all.clone()), "{text}");
        }
        assert_eq!(read(""), Ok(AssignedKeys::default()));
        let bare = read("acme,gold\n\n other , exempt \n").unwrap();
        assert_eq!(bare.len(), 2);
    }

    #[test]
    fn an_end_is_an_instant_or_unix_seconds() {
        let same = "{\"key\": 7, \"plan\": \"gold\", \"until\": 1796083200}";
        for text in
            ["7,gold,1796083200", "7,gold,2026-12-01T00:00:00Z", "7,gold,2026-12-01T01:00:00+01:00", same]
        {
            let until = read(text).unwrap().of("7").unwrap().until;
            assert_eq!(until, Some(1_796_083_200_000_000), "{text}");
        }
        assert_eq!(
            read("{\"key\": \"a\", \"plan\": \"gold\", \"until\": null}").unwrap().of("a").unwrap().until,
            None
        );
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
        assert_eq!(errors.to_string().lines().count(), 21);
        assert!(errors.in_one_line().ends_with("; and 47 more"), "{}", errors.in_one_line());
        let many: String = (0..12).map(|i| format!("{i},gold\n")).collect();
        assert!(read(&many).unwrap_err().to_string().contains("line 11: there are more than 10 rows"));
    }
}
