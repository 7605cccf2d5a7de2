//! The report: the published state, its health and its problems.

use serde::Serialize;

use super::{
    daemon_row::DaemonRow, limit_row::LimitRow, ownership::ConflictRow, pauses::PauseRow, sources::SourceRow,
};

/// The published state.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StatusReport {
    /// The URL of the Redis, without its password.
    pub(crate) redis: String,
    /// Time of an answer of Redis; absent if it gave none.
    pub(crate) latency_ms: Option<f64>,
    pub(crate) health: Health,
    pub(crate) problems: Vec<Problem>,
    pub(crate) namespace: String,
    /// The Redis `TIME` of the report, in µs.
    #[serde(skip)]
    pub(crate) now: Option<u64>,
    /// The schema in Redis, if this version does not know it. Limits are not shown then.
    pub(crate) newer_schema: Option<u64>,
    /// The number of the last publication; absent if nothing is published.
    pub(crate) generation: Option<u64>,
    pub(crate) daemons: Vec<DaemonRow>,
    pub(crate) limits: Vec<LimitRow>,
    /// Limits that code has defined, beyond the 200 that are shown.
    pub(crate) limits_not_shown: usize,
    /// Limits of live daemons that are refused, and by which config.
    pub(crate) conflicts: Vec<ConflictRow>,
    /// Paused limits and keys; the first to end comes first.
    pub(crate) pauses: Vec<PauseRow>,
    /// Sources of assignments.
    pub(crate) sources: Vec<SourceRow>,
}

/// The worst of all problems, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Health {
    /// No problem.
    #[default]
    Healthy,
    /// Takes are decided, but something needs a look.
    Degraded,
    /// No daemon is alive. Workers go on without.
    NoDaemon,
    /// No limit is published, so workers find none.
    Unpublished,
    /// Redis is away or refuses.
    Undecided,
}

/// Something that is not as it should be.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    /// A word for machines.
    pub(crate) cause: &'static str,
    pub(crate) what: String,
    pub(crate) action: String,
}
