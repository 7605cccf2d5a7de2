//! Many keys with their assignments, in little memory: 24 bytes and the key for each.

use std::fmt;

use crate::limit::{Assignment, Target};

/// No end. An end is an instant that Redis scripts can count.
const ENDLESS: u64 = u64::MAX;

/// Keys and their assignments, in order of keys once they are sorted.
#[derive(Clone, Default)]
pub struct AssignedKeys {
    /// All keys, one behind the other.
    text: String,
    /// The targets that rows name by their place here.
    targets: Vec<Target>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy)]
struct Row {
    /// The place of the key in the text.
    start: u64,
    until: u64,
    mark: u32,
    length: u16,
    target: u16,
}

/// A row for which there is no room: a key of more than 65,535 bytes, or too many plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has at most 65535 bytes, and all keys together 65535 plans")]
pub struct NoRoomError;

// === impl AssignedKeys ===

impl AssignedKeys {
    /// Adds a row behind all others. `mark` tells its place when [`sort`](Self::sort) finds its key twice.
    ///
    /// # Errors
    /// [`NoRoomError`].
    pub fn push(&mut self, key: &str, assignment: Assignment, mark: u32) -> Result<(), NoRoomError> {
        let known = self.targets.iter().position(|target| *target == assignment.target);
        let target = u16::try_from(known.unwrap_or(self.targets.len())).map_err(|_| NoRoomError)?;
        let length = u16::try_from(key.len()).map_err(|_| NoRoomError)?;
        if known.is_none() {
            self.targets.push(assignment.target);
        }
        let (start, until) = (self.text.len() as u64, assignment.until.unwrap_or(ENDLESS));
        self.text.push_str(key);
        self.rows.push(Row { start, until, mark, length, target });
        Ok(())
    }

    /// Puts the rows in order of their keys. Returns the marks of rows whose key another row has already, each with the mark
    /// of that one, in order of marks. These rows stay.
    pub fn sort(&mut self) -> Vec<[u32; 2]> {
        let text = &self.text;
        self.rows.sort_unstable_by_key(|row| (row.key(text), row.mark));
        let twice = self.rows.chunk_by(|one, other| one.key(text) == other.key(text));
        let mut marks: Vec<[u32; 2]> =
            twice.flat_map(|rows| rows[1..].iter().map(|row| [row.mark, rows[0].mark])).collect();
        marks.sort_unstable();
        marks
    }

    /// The number of rows.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row at `index`; `None` behind the last one.
    pub fn get(&self, index: usize) -> Option<(&str, Assignment)> {
        self.rows.get(index).map(|row| self.row(row))
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Assignment)> + Clone {
        self.rows.iter().map(|row| self.row(row))
    }

    /// The assignment of `key`. The rows are sorted.
    pub fn of(&self, key: &str) -> Option<Assignment> {
        let index = self.rows.binary_search_by(|row| row.key(&self.text).cmp(key)).ok()?;
        self.get(index).map(|(_, assignment)| assignment)
    }

    /// A key whose row has this mark.
    pub fn marked(&self, mark: u32) -> Option<&str> {
        self.rows.iter().find(|row| row.mark == mark).map(|row| row.key(&self.text))
    }

    fn row(&self, row: &Row) -> (&str, Assignment) {
        let target = self.targets.get(usize::from(row.target)).copied().unwrap_or(Target::Deny);
        (row.key(&self.text), Assignment { target, until: (row.until != ENDLESS).then_some(row.until) })
    }
}

impl Row {
    fn key(self, text: &str) -> &str {
        let start = self.start as usize;
        text.get(start..start + usize::from(self.length)).unwrap_or_default()
    }
}

/// Sorted. A row without room is left out, and so is a key that came before.
impl<K: AsRef<str>> FromIterator<(K, Assignment)> for AssignedKeys {
    fn from_iter<T: IntoIterator<Item = (K, Assignment)>>(rows: T) -> Self {
        let mut all = Self::default();
        for (mark, (key, assignment)) in (0..).zip(rows) {
            let _ = all.push(key.as_ref(), assignment, mark);
        }
        all.sort();
        let Self { text, rows, .. } = &mut all;
        rows.dedup_by(|one, other| one.key(text) == other.key(text));
        all
    }
}

impl PartialEq for AssignedKeys {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for AssignedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(word: &str) -> Assignment {
        Assignment { target: word.parse().unwrap(), until: None }
    }

    #[test]
    fn rows_are_sorted_found_and_told_when_they_come_twice() {
        let mut keys = AssignedKeys::default();
        let until = Assignment { until: Some(7), ..to("gold") };
        let rows = [
            ("b", to("gold")),
            ("", to("deny")),
            ("ä b", until),
            ("b", to("deny")),
            ("a", to("gold")),
            ("b", until),
        ];
        for (mark, (key, assignment)) in (10..).zip(rows) {
            keys.push(key, assignment, mark).unwrap();
        }
        assert_eq!(keys.sort(), [[13, 10], [15, 10]]);
        let found: Vec<&str> = keys.iter().map(|(key, _)| key).collect();
        assert_eq!(found, ["", "a", "b", "b", "b", "ä b"]);
        assert_eq!((keys.of("ä b"), keys.of("a"), keys.of("c")), (Some(until), Some(to("gold")), None));
        assert_eq!((keys.len(), keys.get(6)), (6, None));

        let once: AssignedKeys = rows.into_iter().collect();
        assert_eq!(
            once.iter().collect::<Vec<_>>(),
            [("", to("deny")), ("a", to("gold")), ("b", to("gold")), ("ä b", until)]
        );
        assert_ne!(once, keys);
        assert_eq!(size_of::<Row>(), 24);
    }

    #[test]
    fn what_has_no_room_is_refused_and_leaves_nothing() {
        let mut keys = AssignedKeys::default();
        assert_eq!(keys.push(&"k".repeat(65_536), to("gold"), 0), Err(NoRoomError));
        assert!(keys.is_empty() && keys.sort().is_empty());
    }
}
