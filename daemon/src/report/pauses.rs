//! Pauses in the report.

use serde::Serialize;
use topup_wire::scripts::Pauses;

use crate::text::utc;

/// A paused limit, or a paused key of a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PauseRow {
    pub(crate) limit: String,
    /// The key; absent if all buckets of the limit are paused.
    pub(crate) key: Option<String>,
    /// The end of the pause, and the time until then.
    pub(crate) until: String,
    pub(crate) left_ms: f64,
}

// === impl PauseRow ===

impl PauseRow {
    /// The rows of `paused` that are not over at `now`, in µs of Redis `TIME`.
    pub(crate) fn of(paused: Pauses, now: u64) -> Vec<Self> {
        let pauses = paused.pauses.into_iter().filter(|pause| pause.until > now);
        let row = |pause: topup_wire::scripts::Pause| Self {
            limit: pause.limit.to_string(),
            key: pause.key,
            until: utc(pause.until),
            left_ms: (pause.until - now) as f64 / 1e3,
        };
        pauses.map(row).collect()
    }
}
