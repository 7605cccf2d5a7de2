//! The next changes by schedules and calendar refills of the config.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    config::{Config, LimitConfig, SupplyConfig},
    text::utc,
};

/// Most changes that are told, the soonest first.
const MOST: usize = 20;
/// Most changes of one limit, which may change every night.
const MOST_OF_LIMIT: usize = 2;

/// A change of terms to come, or a refill by the calendar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    limit: String,
    at: String,
    /// The terms from then on, in words.
    what: String,
    #[serde(skip)]
    instant: u64,
}

/// The changes to come, found anew when the config changes or when the first of them has come.
#[derive(Debug, Default)]
pub(super) struct Upcoming(Option<(Arc<Config>, u64, Vec<Change>)>);

// === impl Upcoming ===

impl Upcoming {
    /// The changes of `config` after `now`, in µs of Redis `TIME`.
    pub(super) fn after(&mut self, config: &Arc<Config>, now: u64) -> Vec<Change> {
        let is_known = self.0.as_ref().is_some_and(|(of, since, changes)| {
            let first = changes.first().map_or(u64::MAX, |change| change.instant);
            Arc::ptr_eq(of, config) && (*since..first).contains(&now)
        });
        if !is_known {
            self.0 = Some((config.clone(), now, upcoming(config, now)));
        }
        self.0.iter().flat_map(|(.., changes)| changes.clone()).collect()
    }
}

fn upcoming(config: &Config, now: u64) -> Vec<Change> {
    let mut changes: Vec<Change> = config.limits.values().flat_map(|limit| of_limit(limit, now)).collect();
    changes.sort_by(|one, other| (one.instant, &one.limit).cmp(&(other.instant, &other.limit)));
    changes.truncate(MOST);
    changes
}

fn of_limit(limit: &LimitConfig, now: u64) -> Vec<Change> {
    let change = |instant, what| Change { limit: limit.name.to_string(), at: utc(instant), what, instant };
    let refill = match &limit.supply {
        SupplyConfig::Calendar(calendar) => calendar.next(now).map(|at| change(at, "refilled".to_owned())),
        SupplyConfig::Rate(_) | SupplyConfig::Windows(_) | SupplyConfig::Permits(_) => None,
    };
    if limit.schedule.is_empty() {
        return refill.into_iter().collect();
    }
    let mut before = limit.effective_at(now).terms;
    let later = limit.changes_after(now).into_iter().map(|(at, terms)| {
        let mut what = Vec::new();
        if terms.supply != before.supply
            && let topup_wire::limit::Supply::Rate(rate) = terms.supply
        {
            what.push(format!("rate {rate}"));
        }
        if terms.capacity != before.capacity {
            what.push(format!("capacity {}", terms.capacity));
        }
        before = terms;
        change(at, what.join(", "))
    });
    later.take(MOST_OF_LIMIT).chain(refill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_in_order_and_pass() {
        let config = Config::parse(
            "[limit.night]\ncapacity = 10\nrate = \"10/s\"\n[[limit.night.schedule]]\ncron = \"0 0 22 * * *\"\nrate = \"20/s\"\n\
             [[limit.night.schedule]]\ncron = \"0 0 6 * * *\"\nrate = \"10/s\"\ncapacity = 30\n\
             [limit.month]\ncapacity = 10\nrefill = { cron = \"0 0 0 1 * *\" }\n[limit.plain]\ncapacity = 1\nrate = \"1/s\"",
            "config.toml",
        );
        let (config, day) = (Arc::new(config.unwrap()), 86_400_000_000_u64);
        let mut upcoming = Upcoming::default();
        let told = |changes: Vec<Change>| -> Vec<String> {
            changes.iter().map(|change| format!("{} {} {}", change.at, change.limit, change.what)).collect()
        };
        let first = told(upcoming.after(&config, 19 * day));
        assert_eq!(first[0], "1970-01-20T06:00:00Z night rate 10/s, capacity 30");
        assert_eq!(first[1], "1970-01-20T22:00:00Z night rate 20/s, capacity 10");
        assert!(first.contains(&"1970-02-01T00:00:00Z month refilled".to_owned()), "{first:?}");
        assert!(first.len() <= MOST && first.is_sorted());
        let later = told(upcoming.after(&config, 19 * day + day / 2));
        assert_eq!(later[0], "1970-01-20T22:00:00Z night rate 20/s, capacity 10");
    }
}
