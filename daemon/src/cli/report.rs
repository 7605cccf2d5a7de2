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
    /// Limits of live daemons that are refused, and by which config.
    pub(super) conflicts: Vec<ConflictRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct DaemonRow {
    pub(super) id: String,
    /// The name of its config, and the hash of the limits in it.
    pub(super) config: String,
    pub(super) config_hash: String,
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
    /// The configs that hold it; none if an older version published it.
    pub(super) owners: Vec<OwnerRow>,
    /// Whether no owner has a live daemon: the limit is in force, and stays until it is removed or taken over.
    pub(super) orphaned: bool,
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
pub(super) struct OwnerRow {
    pub(super) config: String,
    /// Whether a daemon of it is alive.
    pub(super) alive: bool,
    /// The instant of the last heartbeat, if none is.
    pub(super) since: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ConflictRow {
    pub(super) limit: String,
    /// The daemon whose config is refused, and that config.
    pub(super) daemon: String,
    pub(super) config: String,
    /// The configs that hold the limit with other terms.
    pub(super) held_by: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct CandidateRow {
    pub(super) capacity: u64,
    pub(super) rate: Option<String>,
}
