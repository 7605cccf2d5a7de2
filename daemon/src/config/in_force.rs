//! Which terms of a limit apply at an instant.

use topup_wire::limit::{Period, Supply, Terms};

use super::{Entry, LimitConfig, Source};
use crate::calendar::NEVER;

/// The terms that apply at an instant, in µs since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// What applies.
    pub terms: Terms,
    /// The firing that put these terms in force; `None` for the limit's own, when no entry has fired yet.
    pub since: Option<u64>,
    /// The next firing of the schedule or of a calendar refill: the terms hold until then.
    pub until: Option<u64>,
}

// === impl LimitConfig ===

impl LimitConfig {
    /// What applies at `now`: the entry that fired last, and of two that fired together the later one
    /// in the file. It sets what it names; the rest is the limit's own, not an earlier entry's.
    pub fn in_force(&self, now: u64) -> InForce {
        let fired = self.schedule.iter().filter_map(|entry| Some((entry.calendar.latest(now)?, entry)));
        // Of equal elements, `max_by_key` returns the last.
        let fired: Option<(u64, &Entry)> = fired.max_by_key(|(at, _)| *at);
        let entry = fired.map(|(_, entry)| entry);
        let supply = match &self.source {
            Source::Rate(own) => Supply::Rate(entry.and_then(|entry| entry.rate).unwrap_or(*own)),
            Source::Calendar(calendar) => Supply::Period(Period {
                since: calendar.latest(now).unwrap_or(0),
                next: calendar.next(now).unwrap_or(NEVER),
            }),
            Source::Windows(windows) => Supply::Windows(*windows),
        };
        let refill = match &self.source {
            Source::Calendar(calendar) => Some(calendar),
            Source::Rate(_) | Source::Windows(_) => None,
        };
        let calendars = self.schedule.iter().map(|entry| &entry.calendar).chain(refill);
        InForce {
            terms: Terms {
                capacity: entry.and_then(|entry| entry.capacity).unwrap_or(self.capacity),
                supply,
            },
            since: fired.map(|(at, _)| at),
            until: calendars.filter_map(|calendar| calendar.next(now)).min(),
        }
    }
}
