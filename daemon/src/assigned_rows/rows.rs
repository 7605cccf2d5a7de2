//! Rows of assignments as they are read, one by one.

use std::io::{self, BufRead};

use topup_wire::{
    assigned_keys::AssignedKeys,
    limit::{LimitName, Plans},
};

use super::{
    check::checked,
    errors::RowErrors,
    row::{Row, TITLES},
};
use crate::text::grouped;

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
