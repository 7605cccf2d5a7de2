//! The next changes of a limit's schedule.

use std::fmt;

use super::{Capacity, Rate};
use crate::constants::MOST_CHANGES;

/// A change of terms by a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledChange {
    /// Its instant, in µs of Redis `TIME`.
    pub at: u64,
    /// The capacity from then on.
    pub capacity: Capacity,
    /// The rate from then on.
    pub rate: Rate,
}

/// The next changes of a schedule, in order. Scripts follow them without a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule([Option<ScheduledChange>; MOST_CHANGES as usize]);

/// A text that is no list of changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no list of changes")]
pub struct ScheduleError(String);

// === impl Schedule ===

impl Schedule {
    /// No change ahead.
    pub const NONE: Self = Self([None; MOST_CHANGES as usize]);

    /// The next changes in order. Later ones than a record has room for are left out.
    pub fn new(changes: impl IntoIterator<Item = ScheduledChange>) -> Self {
        let mut schedule = Self::NONE;
        for (place, change) in schedule.0.iter_mut().zip(changes) {
            *place = Some(change);
        }
        schedule
    }

    /// The changes in order.
    pub fn changes(&self) -> impl Iterator<Item = ScheduledChange> + '_ {
        self.0.iter().map_while(|change| *change)
    }

    /// The schedule after its first change.
    #[must_use]
    pub fn after_first(&self) -> Self {
        Self::new(self.changes().skip(1))
    }

    /// Whether no change is ahead.
    pub const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// The instant of the first change, in µs of Redis `TIME`.
    pub fn first_at(&self) -> Option<u64> {
        self.0[0].map(|change| change.at)
    }

    /// The instant by which every bucket is full, whatever was taken before the first change.
    pub fn full_by(&self) -> u64 {
        let mut full_by = 0;
        for change in self.changes() {
            if full_by > 0 && full_by <= change.at {
                break;
            }
            full_by = change.rate.pace().instant(change.at, change.capacity.get()).saturating_add(2);
        }
        full_by
    }

    /// Reads the text of a record.
    ///
    /// # Errors
    /// If the text is not one that [`Display`](fmt::Display) writes.
    pub fn from_text(text: &str) -> Result<Self, ScheduleError> {
        let error = || ScheduleError(text.chars().take(100).collect());
        let mut changes = Vec::new();
        for entry in text.split(',').filter(|_| !text.is_empty()) {
            let mut words = entry.split(' ');
            let mut word = || words.next().ok_or_else(error);
            let at: u64 = word()?.parse().map_err(|_| error())?;
            let capacity = Capacity::new(word()?.parse().map_err(|_| error())?).map_err(|_| error())?;
            let rate: Rate = word()?.parse().map_err(|_| error())?;
            let change = ScheduledChange { at, capacity, rate };
            if change.to_string() != entry
                || changes.last().is_some_and(|last: &ScheduledChange| last.at >= at)
            {
                return Err(error());
            }
            changes.push(change);
        }
        if changes.len() > MOST_CHANGES as usize { Err(error()) } else { Ok(Self::new(changes)) }
    }
}

/// The text in a record: changes with commas between them. Each has its instant, capacity, rate, n and p.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, change) in self.changes().enumerate() {
            write!(f, "{}{change}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for ScheduledChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, capacity, rate } = self;
        let (n, p) = rate.lowest_terms();
        write!(f, "{at} {capacity} {rate} {n} {p}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at: u64, capacity: u64, rate: &str) -> ScheduledChange {
        ScheduledChange { at, capacity: Capacity::new(capacity).unwrap(), rate: rate.parse().unwrap() }
    }

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
        let all = [change(5, 10, "7/3h"), change(9, 3, "100/s"), change(20, 4, "1/m")];
        for count in 0..=all.len() {
            let schedule = Schedule::new(all[..count].iter().copied());
            assert_eq!(Schedule::from_text(&schedule.to_string()), Ok(schedule));
        }
        assert_eq!(
            Schedule::new(all).to_string(),
            "5 10 7/3h 7 10800000000,9 3 100/s 1 10000,20 4 1/min 1 60000000"
        );
        assert_eq!(Schedule::new(all).after_first(), Schedule::new(all[1..].iter().copied()));
    }

    #[test]
    fn other_texts_are_refused() {
        let many = "5 1 1/s 1 1000000,".repeat(7);
        for text in
            ["x", "5", "5 1 often 1 1", "5 1 1/s 1 1", "9 1 1/s 1 1000000,5 1 1/s 1 1000000", many.as_str()]
        {
            assert!(Schedule::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_bucket_is_full_in_the_end() {
        assert_eq!(Schedule::NONE.full_by(), 0);
        let slow = change(1_000_000, 10, "1/s");
        assert_eq!(Schedule::new([slow]).full_by(), 11_000_002);
        let soon = change(2_000_000, 100, "10/s");
        assert_eq!(Schedule::new([slow, soon]).full_by(), 12_000_002, "the second change comes before");
        let later = change(60_000_000, 100, "1/s");
        assert_eq!(
            Schedule::new([slow, later]).full_by(),
            11_000_002,
            "all are full before the second change"
        );
    }
}
