//! A source of assignments in a report.

use serde::Serialize;

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
