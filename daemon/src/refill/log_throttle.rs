//! Keeps a repeated event from filling the log.

use std::time::Duration;

use crate::clock::Moment;

/// The shortest time between two log lines of one kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// Lets one log line of a kind through in 10 s.
#[derive(Debug, Default)]
pub(super) struct LogThrottle(Option<Moment>);

// === impl LogThrottle ===

impl LogThrottle {
    /// Whether to log the event that happens now.
    pub(super) fn should_log(&mut self) -> bool {
        if self.0.is_some_and(|logged| logged.elapsed() < INTERVAL) {
            return false;
        }
        self.0 = Some(Moment::now());
        true
    }
}
