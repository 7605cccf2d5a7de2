//! A table, as Markdown that is also readable on a terminal.

use std::fmt;

use super::page::wrapped;

/// A titled table. The first column is text, the others are figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    title: String,
    /// What was done, and how to read it.
    note: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

// === impl Table ===

impl Table {
    pub(crate) fn new(title: &str, note: &str, header: &[&str]) -> Self {
        let header = header.iter().map(|&name| name.to_owned()).collect();
        Self { title: title.to_owned(), note: note.to_owned(), header, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, first: &str, figures: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(first.to_owned()).chain(figures).collect());
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[String]) -> fmt::Result {
        for column in 0..self.header.len() {
            let cell = cells.get(column).map_or("", String::as_str);
            let width = self.width(column);
            if column == 0 { write!(f, "| {cell:width$} ")? } else { write!(f, "| {cell:>width$} ")? }
        }
        writeln!(f, "|")
    }

    fn width(&self, column: usize) -> usize {
        let all = self.rows.iter().chain([&self.header]);
        all.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n\n{}", self.title, wrapped(&self.note))?;
        self.line(f, &self.header)?;
        for column in 0..self.header.len() {
            let dashes = "-".repeat(self.width(column) + 1);
            if column == 0 { write!(f, "|{dashes}-")? } else { write!(f, "|{dashes}:")? }
        }
        writeln!(f, "|")?;
        self.rows.iter().try_for_each(|row| self.line(f, row))
    }
}
