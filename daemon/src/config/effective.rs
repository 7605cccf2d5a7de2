//! The effective terms of a limit: those that apply at an instant.

use topup_wire::limit::{Period, Supply, Terms};

use super::limit::{LimitConfig, ScheduleEntry, SupplyConfig};
use crate::calendar::NEVER;

/// Most firings of a schedule that are looked at for the next changes. Many a firing changes nothing.
const MOST_FIRINGS: usize = 24;

/// The terms at an instant. Instants are in µs since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTerms {
    /// The terms.
    pub terms: Terms,
    /// The firing of the schedule that set these terms; `None` before the first firing.
    pub since: Option<u64>,
    /// The next firing of the schedule or of a calendar refill. The terms apply until then.
    pub until: Option<u64>,
}

// === impl LimitConfig ===

impl LimitConfig {
    /// The terms at `now`. The schedule entry that fired last sets the keys it names; all others are the limit's own.
    /// If two entries fired together, the later one in the file applies.
    pub fn effective_at(&self, now: u64) -> EffectiveTerms {
        let fired = self.schedule.iter().filter_map(|entry| Some((entry.calendar.latest(now)?, entry)));
        // `max_by_key` returns the last of equal elements.
        let fired: Option<(u64, &ScheduleEntry)> = fired.max_by_key(|(at, _)| *at);
        let entry = fired.map(|(_, entry)| entry);
        let supply = match &self.supply {
            SupplyConfig::Rate(own) => Supply::Rate(entry.and_then(|entry| entry.rate).unwrap_or(*own)),
            SupplyConfig::Calendar(calendar) => Supply::Period(Period {
                since: calendar.latest(now).unwrap_or(0),
                next: calendar.next(now).unwrap_or(NEVER),
            }),
            SupplyConfig::Windows(windows) => Supply::Windows(*windows),
            SupplyConfig::Permits(ttl) => Supply::Permits(*ttl),
        };
        EffectiveTerms {
            terms: Terms {
                capacity: entry.and_then(|entry| entry.capacity).unwrap_or(self.capacity),
                supply,
            },
            since: fired.map(|(at, _)| at),
            until: self.calendars().filter_map(|calendar| calendar.next(now)).min(),
        }
    }

    /// The next changes of terms after `now` by the schedule of a limit with a rate: instants and terms, in order. The
    /// answer is the same until the next firing.
    pub fn changes_after(&self, now: u64) -> Vec<(u64, Terms)> {
        let mut terms = self.effective_at(now).terms;
        let mut changes = Vec::new();
        let SupplyConfig::Rate(own) = self.supply else { return changes };
        let mut next: Vec<Option<u64>> = self.schedule.iter().map(|entry| entry.calendar.next(now)).collect();
        for _ in 0..MOST_FIRINGS {
            let Some(at) = next.iter().flatten().min().copied() else { break };
            let mut fired = None;
            for (entry, next) in self.schedule.iter().zip(&mut next).filter(|(_, next)| **next == Some(at)) {
                fired = Some(entry);
                *next = entry.calendar.next(at);
            }
            let later = Terms {
                capacity: fired.and_then(|entry| entry.capacity).unwrap_or(self.capacity),
                supply: Supply::Rate(fired.and_then(|entry| entry.rate).unwrap_or(own)),
            };
            if later != terms {
                changes.push((at, later));
            }
            terms = later;
        }
        changes
    }
}
