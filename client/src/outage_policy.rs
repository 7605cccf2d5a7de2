//! The outage policy: the decision where Redis gives none, and a record of such outages.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use crate::error::Error;

/// The outage policy: the decision if Redis is unreachable or slow, or the limit is not published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// Go on as if allowed. An outage of the limiter then stops no request.
    #[default]
    Allow,
    /// Stop as if denied.
    Deny,
}

/// A client's record of outages: a count, and the limits without a decision at present.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    undecided: AtomicU64,
    any: AtomicBool,
    limits: Mutex<HashSet<String>>,
}

// === impl Outages ===

impl Outages {
    /// Admissions so far that Redis did not decide.
    pub(crate) fn undecided(&self) -> u64 {
        self.undecided.load(Relaxed)
    }

    /// Records a decision of `limits`, and logs the end of their outages.
    pub(crate) fn end<'a>(&self, limits: impl Iterator<Item = &'a str>) {
        // Read first, without the lock: each admission comes here.
        if self.any.load(Relaxed) {
            let mut failing = self.failing();
            for limit in limits.filter(|limit| failing.remove(*limit)) {
                log_end(limit, self.undecided());
            }
            self.any.store(!failing.is_empty(), Relaxed);
        }
    }

    /// Records that `limits` gave no decision, and logs the begin of their outages.
    pub(crate) fn begin<'a>(&self, limits: impl Iterator<Item = &'a str>, error: &Error, on_error: OnError) {
        self.undecided.fetch_add(1, Relaxed);
        let mut failing = self.failing();
        for limit in limits {
            if failing.insert(limit.to_owned()) {
                log_begin(limit, error, on_error);
            }
        }
        self.any.store(true, Relaxed);
    }

    fn failing(&self) -> MutexGuard<'_, HashSet<String>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "tracing")]
fn log_begin(limit: &str, error: &Error, on_error: OnError) {
    tracing::warn!(limit, %error, ?on_error, "a limit cannot be decided");
}

#[cfg(feature = "tracing")]
fn log_end(limit: &str, undecided: u64) {
    tracing::info!(limit, undecided, "a limit is decided again");
}

#[cfg(not(feature = "tracing"))]
const fn log_begin(_: &str, _: &Error, _: OnError) {}

#[cfg(not(feature = "tracing"))]
const fn log_end(_: &str, _: u64) {}
