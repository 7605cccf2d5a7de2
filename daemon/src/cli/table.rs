//! Tables of text: columns as wide as their widest cell.

/// A table. The first columns are text, the others are figures, aligned to the right.
#[derive(Debug)]
pub(super) struct Table {
    texts: usize,
    rows: Vec<Vec<String>>,
}

// === impl Table ===

impl Table {
    /// A table with these columns.
    pub(super) fn new(texts: &[&str], figures: &[&str]) -> Self {
        let titles = texts.iter().chain(figures).map(|title| (*title).to_owned()).collect();
        Self { texts: texts.len(), rows: vec![titles] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// The table as lines.
    pub(super) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width_of).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column < self.texts { format!("{cell:width$}") } else { format!("{cell:>width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// `text` without control characters: a key may be any text, and a terminal acts on some.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_do_nothing() {
        let mut table = Table::new(&["limit", "mode"], &["rate"]);
        table.row(["a\u{1b}[2J".to_owned(), "off".to_owned(), "1/s".to_owned()]);
        table.row(["user".to_owned(), "enforce".to_owned(), "100/s".to_owned()]);
        let text = "limit  mode      rate\na\u{fffd}[2J  off        1/s\nuser   enforce  100/s";
        assert_eq!(table.render(), text);
    }
}
