//! The rows that cannot be used.

use std::fmt;

use crate::text::grouped;

/// Most wrong rows that are named.
const MOST_NAMED: usize = 20;

/// All rows that are wrong. Nothing of the file or table is to be used then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowErrors {
    /// The first of them, in order of their marks: `line 3: no plan silver`.
    pub(super) first: Vec<(u32, String)>,
    pub(super) count: usize,
}

// === impl RowErrors ===

impl RowErrors {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the error of the row with this mark. Only the first ones are kept.
    pub(super) fn add(&mut self, mark: u32, error: impl FnOnce() -> String) {
        self.count += 1;
        let at = self.first.partition_point(|(other, _)| *other <= mark);
        if at < MOST_NAMED {
            self.first.insert(at, (mark, error()));
            self.first.truncate(MOST_NAMED);
        }
    }

    /// The first `most` of them, and the number of the others.
    fn lines(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.first.iter().take(most).map(|(_, error)| error.clone()).collect();
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
