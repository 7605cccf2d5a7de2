//! What happens when nothing can be decided, and how often it did.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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

/// A client's count of what was not decided.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    undecided: AtomicU64,
    lasts: AtomicBool,
}

// === impl Outage ===

impl Outage {
    /// How often nothing could be decided.
    pub(crate) fn undecided(&self) -> u64 {
        self.undecided.load(Relaxed)
    }

    /// Takes note of a decision, and says so in the log if it ends an outage.
    pub(crate) fn over(&self) {
        // Read first: this is on the way of every take, and a write would pass between processors.
        if self.lasts.load(Relaxed) && self.lasts.swap(false, Relaxed) {
            #[cfg(feature = "tracing")]
            tracing::info!(undecided = self.undecided(), "limits are decided again");
        }
    }

    /// Takes note that nothing was decided, and says so in the log if it is the first time since something was.
    pub(crate) fn note(&self, error: &Error, on_error: OnError) {
        self.undecided.fetch_add(1, Relaxed);
        if !self.lasts.swap(true, Relaxed) {
            #[cfg(feature = "tracing")]
            tracing::warn!(%error, ?on_error, "limits cannot be decided");
            #[cfg(not(feature = "tracing"))]
            let _ = (error, on_error);
        }
    }
}
