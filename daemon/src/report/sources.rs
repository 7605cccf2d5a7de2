//! The sources of assignments in a report.

use std::collections::BTreeMap;

use serde::Serialize;
use topup_wire::{limit::LimitName, scripts::SourceStatus};

use super::{Health, StatusReport};
use crate::text::utc;

/// A source, as the daemon that reads it tells.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SourceRow {
    pub(crate) limit: String,
    /// The file, or the database without user and password.
    pub(crate) source: String,
    /// The daemon that reads it; absent while none does.
    pub(crate) daemon: Option<String>,
    /// Its rows when it was last read without a mistake.
    pub(crate) rows: u64,
    pub(crate) last_read: Option<String>,
    /// The reason why it cannot be used, and since when.
    pub(crate) problem: Option<String>,
    pub(crate) problem_since: Option<String>,
    /// The same instants in µs.
    #[serde(skip)]
    pub(crate) read_at: Option<u64>,
    #[serde(skip)]
    pub(crate) failed_at: Option<u64>,
}

// === impl StatusReport ===

impl StatusReport {
    /// Adds the sources, and the problems that they have.
    pub(super) fn add_sources(&mut self, told: BTreeMap<LimitName, SourceStatus>) {
        for (limit, status) in told {
            let SourceStatus { daemon, name, read, rows, problem, .. } = status;
            let (problem, failed_at) = problem.unzip();
            if let Some((problem, since)) = problem.as_ref().zip(failed_at) {
                let what = format!(
                    "the source {name} of limit {limit} cannot be used since {}: {problem}; assignments stay as they were",
                    utc(since)
                );
                let action = "correct it: the daemon reads it again by itself";
                self.add_problem(Health::Degraded, "source", what, action);
            }
            self.sources.push(SourceRow {
                limit: limit.to_string(),
                source: name,
                daemon: Some(daemon).filter(|daemon| !daemon.is_empty()),
                rows,
                last_read: read.map(utc),
                problem,
                problem_since: failed_at.map(utc),
                read_at: read,
                failed_at,
            });
        }
    }
}
