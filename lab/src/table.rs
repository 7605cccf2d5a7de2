//! Tables in Markdown that are also readable on a terminal.

use std::fmt;

use crate::text::wrapped;

/// A titled table. The first column is text, the others are figures.
#[derive(Clone, Debug, Default)]
pub struct Table {
    title: String,
    note: Option<String>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

// === impl Table ===

impl Table {
    /// An empty table.
    pub fn new(title: &str, header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.to_owned(), note: None, header, rows: Vec::new() }
    }

    /// Adds a paragraph above the table.
    #[must_use]
    pub fn note(mut self, words: &str) -> Self {
        self.note = Some(wrapped(words));
        self
    }

    /// Adds a row.
    pub fn row(&mut self, first: impl Into<String>, figures: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(first.into()).chain(figures).collect());
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The names of its columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Its rows so far.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
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
        writeln!(f, "## {}\n", self.title)?;
        if let Some(note) = &self.note {
            writeln!(f, "{note}")?;
        }
        self.line(f, &self.header)?;
        for column in 0..self.header.len() {
            let dashes = "-".repeat(self.width(column) + 1);
            if column == 0 { write!(f, "|{dashes}-")? } else { write!(f, "|{dashes}:")? }
        }
        writeln!(f, "|")?;
        self.rows.iter().try_for_each(|row| self.line(f, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new("Costs", ["", "µs"]).note("Of one.");
        table.row("a take", ["0.42".to_owned()]);
        table.row("none", []);
        let lines = ["|        |   µs |", "|--------|-----:|", "| a take | 0.42 |", "| none   |      |"];
        assert_eq!(table.to_string(), format!("## Costs\n\nOf one.\n\n{}\n", lines.join("\n")));
    }
}
