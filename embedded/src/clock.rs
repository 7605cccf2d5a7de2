//! The one place this crate reads a clock.

use std::time::{Duration, Instant};

/// The instant by which something must have happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    start: Instant,
    within: Duration,
}

impl Deadline {
    #[allow(clippy::disallowed_methods, reason = "the one place this crate reads the monotonic clock")]
    pub(crate) fn after(within: Duration) -> Self {
        Self { start: Instant::now(), within }
    }

    pub(crate) fn passed(self) -> bool {
        self.start.elapsed() >= self.within
    }
}
