//! The record of outages: counts, and the limits without a decision at present.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use topup_wire::limit::OnOutage;

use super::log::{log_begin, log_end};
use crate::machine::Micros;

/// An outage of a limit is over when it was decided for so long, in µs. A limit that comes and goes is logged once.
const QUIET: Micros = 1_000_000;
/// Most limits with counts of their own.
const MOST_LIMITS: usize = 4_096;

/// Decisions of one limit that the outage policy made, from [`Client::outage_counts`](crate::Client::outage_counts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutageCounts {
    /// Takes that were allowed.
    pub allowed: u64,
    /// Takes that were denied.
    pub denied: u64,
}

/// A client's record of outages.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    undecided: AtomicU64,
    /// Whether any limit is without a decision.
    any: AtomicBool,
    limits: Mutex<HashMap<String, Record>>,
}

#[derive(Debug, Default)]
struct Record {
    counts: OutageCounts,
    /// The last decision by the policy, while the outage lasts.
    last: Option<Micros>,
}

// === impl Outages ===

impl Outages {
    /// Decisions so far that the outage policy made.
    pub(crate) fn undecided(&self) -> u64 {
        self.undecided.load(Relaxed)
    }

    pub(crate) fn counts(&self, limit: &str) -> OutageCounts {
        self.lock().get(limit).map(|record| record.counts).unwrap_or_default()
    }

    /// Records that `on_outage` decided for `limit` because of `reason`. Logs the begin of an outage.
    pub(crate) fn note(
        &self,
        limit: &str,
        allowed: bool,
        on_outage: OnOutage,
        reason: &dyn std::fmt::Display,
        now: Micros,
    ) {
        self.undecided.fetch_add(1, Relaxed);
        let mut limits = self.lock();
        if !limits.contains_key(limit) {
            if limits.len() >= MOST_LIMITS {
                return;
            }
            limits.insert(limit.to_owned(), Record::default());
        }
        let Some(record) = limits.get_mut(limit) else { return };
        *(if allowed { &mut record.counts.allowed } else { &mut record.counts.denied }) += 1;
        let begins = record.last.replace(now).is_none();
        drop(limits);
        if begins {
            self.any.store(true, Relaxed);
            log_begin(limit, reason, on_outage);
        }
    }

    /// Ends the outages of limits that Redis can decide again. Called after each answered control poll.
    pub(crate) fn end(&self, now: Micros, is_known: impl Fn(&str) -> bool) {
        if !self.any.load(Relaxed) {
            return;
        }
        let mut ended = Vec::new();
        let mut any = false;
        for (limit, record) in self.lock().iter_mut() {
            match record.last {
                Some(last) if now.saturating_sub(last) >= QUIET && is_known(limit) => {
                    record.last = None;
                    ended.push((limit.clone(), record.counts));
                }
                Some(_) => any = true,
                None => {}
            }
        }
        self.any.store(any, Relaxed);
        for (limit, counts) in ended {
            log_end(&limit, counts);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Record>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_a_second_after_the_last_decision_without_redis() {
        let outages = Outages::default();
        outages.note("api", true, OnOutage::Local, &"away", 10);
        outages.note("api", false, OnOutage::Local, &"away", 20);
        outages.note("web", false, OnOutage::Deny, &"away", 20);
        let failing =
            |outages: &Outages| outages.lock().values().filter(|record| record.last.is_some()).count();
        outages.end(QUIET + 19, |_| true);
        assert_eq!(failing(&outages), 2);
        outages.end(QUIET + 20, |limit| limit == "api");
        assert_eq!(failing(&outages), 1, "the other one is still unknown");
        outages.end(QUIET + 20, |_| true);
        assert_eq!((failing(&outages), outages.any.load(Relaxed)), (0, false));
        assert_eq!(outages.counts("api"), OutageCounts { allowed: 1, denied: 1 });
        assert_eq!((outages.counts("web").denied, outages.undecided()), (1, 3));
    }
}
