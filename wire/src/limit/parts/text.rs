//! The text of parts in a record.

use std::fmt::Write as _;

use super::{Part, Parts, PartsError};
use crate::{bucket::Pace, limit::Capacity};

// === impl Parts ===

impl Parts {
    /// The text of a record; empty where there are no parts. A line has the period of deals. Each further line has weight,
    /// capacity, n, p and name of a part.
    pub(crate) fn to_text(&self, capacity: Capacity, pace: Pace, tick: u64) -> String {
        let (Ok(parts), Ok(period)) = (self.under(capacity, pace), self.period(capacity, pace, tick)) else {
            return String::new();
        };
        if parts.is_empty() {
            return String::new();
        }
        let mut text = format!("{period}\n");
        for Part { name, weight, capacity, pace: Pace { n, p } } in parts {
            // A string takes all that is written to it.
            let _ = writeln!(text, "{weight} {capacity} {n} {p} {name}");
        }
        text
    }

    /// Reads what [`to_text`](Self::to_text) writes.
    pub(crate) fn from_text(text: &str) -> Result<Self, PartsError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let part = |line: &str| {
            let wrong = || PartsError::Name(line.chars().take(80).collect());
            let mut words = line.splitn(5, ' ');
            let weight = words.next().and_then(|weight| weight.parse().ok()).ok_or_else(wrong)?;
            Ok((words.nth(3).ok_or_else(wrong)?.to_owned(), weight))
        };
        Self::new(text.lines().skip(1).map(part).collect::<Result<Vec<_>, _>>()?)
    }
}
