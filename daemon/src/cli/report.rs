//! The report of `topupd status`. Its fields are those of the JSON.

use std::collections::BTreeMap;

use serde::Serialize;

/// The published state.
#[derive(Debug, Serialize)]
pub(super) struct StatusReport {
    pub(super) namespace: String,
    /// The schema in Redis, if this version does not know it. Limits are not shown then.
    pub(super) newer_schema: Option<u64>,
    /// The number of the last publication; absent if nothing is published.
    pub(super) generation: Option<u64>,
    pub(super) daemons: Vec<DaemonRow>,
    pub(super) limits: Vec<LimitRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct DaemonRow {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) lag_ms: f64,
    pub(super) credited: u64,
    /// Corrupt keys that it has repaired.
    pub(super) repaired: u64,
    /// The first problem of its config on disk, while it refuses that.
    pub(super) config_refused: Option<String>,
    /// The instant since which it does.
    pub(super) config_refused_since: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct LimitRow {
    pub(super) name: String,
    pub(super) algorithm: &'static str,
    pub(super) keyed: bool,
    pub(super) capacity: u64,
    /// Tokens per interval, or per window; absent for a calendar quota.
    pub(super) rate: Option<String>,
    /// Tokens in the bucket of an unkeyed limit.
    pub(super) tokens: Option<u64>,
    /// Buckets that have a counter; absent for scripted limits, whose buckets only a scan would find.
    pub(super) active: Option<u64>,
    pub(super) mode: &'static str,
    pub(super) enforce_percent: u8,
    /// Other terms that are tried beside the limit.
    pub(super) candidate: Option<CandidateRow>,
    /// Trial metrics of workers since the limit last changed; absent without a trial.
    pub(super) counts: Option<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Serialize)]
pub(super) struct CandidateRow {
    pub(super) capacity: u64,
    pub(super) rate: Option<String>,
}
