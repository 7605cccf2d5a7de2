//! What happens when nothing can be decided, and how often it did.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use crate::error::Error;

/// What to do when nothing can be decided: Redis is away or slow, or the limit is not published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Go on as if it had been allowed: an outage of the limiter is not one of what it limits.
    #[default]
    Allow,
    /// Stop as if it had been denied.
    Deny,
}

/// A client's count of what was not decided, and the limits that could not be asked when they were last.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    undecided: AtomicU64,
    lasts: AtomicBool,
    limits: Mutex<HashSet<String>>,
}

// === impl Outage ===

impl Outage {
    /// How often nothing could be decided.
    pub(crate) fn undecided(&self) -> u64 {
        self.undecided.load(Relaxed)
    }

    /// Takes note that `limits` have decided, and says so in the log of those that could not before.
    pub(crate) fn over<'a>(&self, limits: impl Iterator<Item = &'a str>) {
        // Read first: this is on the way of every take.
        if self.lasts.load(Relaxed) {
            let mut failing = self.failing();
            for limit in limits.filter(|limit| failing.remove(*limit)) {
                log_end(limit, self.undecided());
            }
            self.lasts.store(!failing.is_empty(), Relaxed);
        }
    }

    /// Takes note that `limits` have not decided, and says so in the log of those that could before.
    pub(crate) fn note<'a>(&self, limits: impl Iterator<Item = &'a str>, error: &Error, on_error: OnError) {
        self.undecided.fetch_add(1, Relaxed);
        let mut failing = self.failing();
        for limit in limits.filter(|limit| !failing.contains(*limit)).collect::<Vec<_>>() {
            failing.insert(limit.to_owned());
            log_begin(limit, error, on_error);
        }
        self.lasts.store(true, Relaxed);
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
