//! A table, as Markdown that is also readable on a terminal.

use std::fmt;

use maud::{Markup, html};

/// A titled table. The first column is text, the others are figures.
#[derive(Clone, Debug, Default)]
pub struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

// === impl Table ===

impl Table {
    /// An empty one.
    pub fn new(title: &str, header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.to_owned(), header, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, first: impl Into<String>, figures: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(first.into()).chain(figures).collect());
    }

    /// For the browser.
    pub fn html(&self) -> Markup {
        html! {
            div.scroll {
                table {
                    tr { @for name in &self.header { th { (name) } } }
                    @for row in &self.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
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
        self.line(f, &self.header)?;
        for column in 0..self.header.len() {
            let dashes = "-".repeat(self.width(column) + 1);
            if column == 0 { write!(f, "|{dashes}-")? } else { write!(f, "|{dashes}:")? }
        }
        writeln!(f, "|")?;
        self.rows.iter().try_for_each(|row| self.line(f, row))
    }
}
