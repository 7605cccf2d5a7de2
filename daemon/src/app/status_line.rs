//! The status in one line, for systemd and the log.

use super::App;
use crate::{
    text::{counted, utc},
    trouble,
};

// === impl App ===

impl App {
    /// The status in one line.
    pub(super) fn status_line(&self) -> String {
        let status = self.status.borrow().clone();
        let redis = match (status.connected, status.cause, status.slow, status.newer_schema) {
            (true, _, _, Some(newer)) => format!("connected, writes nothing: {newer}"),
            (true, _, Some(latency), _) => format!("connected, Redis is slow ({latency:.0?})"),
            (true, ..) => "connected".to_owned(),
            (false, Some(cause), ..) => trouble::what(cause).to_owned(),
            (false, None, ..) => "Redis is away".to_owned(),
        };
        let refused = self.refused.as_ref().and_then(|problems| problems.0.first()).map(|problem| {
            let since = status.refused_since.map(|since| format!(" (since {})", utc(since)));
            format!(", config on disk refused: {problem}{}", since.unwrap_or_default())
        });
        format!(
            "{redis}, {}, generation {}, {}, {} credited, lag {:.1} ms{}{}",
            if self.has_config { counted(self.config.limits.len(), "limit") } else { "no config".to_owned() },
            status.generation,
            counted(status.shards, "shard"),
            counted(status.credited as usize, "bucket"),
            status.lag.as_secs_f64() * 1e3,
            refused.unwrap_or_default(),
            status.notes.iter().map(|note| format!(", {note}")).collect::<String>(),
        )
    }
}
