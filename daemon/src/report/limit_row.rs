//! A limit in a report.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ownership::OwnerRow;

#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct LimitRow {
    pub(crate) name: String,
    /// The configs that hold it; none if an older version published it.
    pub(crate) owners: Vec<OwnerRow>,
    /// The end of the definition of a limit that code has defined, unless it is renewed. The owner is that of the code.
    pub(crate) defined_until: Option<String>,
    /// Whether no owner has a live daemon: the limit is in force, and stays until it is removed or taken over.
    pub(crate) orphaned: bool,
    pub(crate) algorithm: &'static str,
    pub(crate) keyed: bool,
    pub(crate) capacity: u64,
    /// Tokens per interval, or per window; absent for a calendar quota.
    pub(crate) rate: Option<String>,
    /// Tokens in the bucket of an unkeyed limit.
    pub(crate) tokens: Option<u64>,
    /// Buckets that have a counter, and keys whose permits are held or waited for. Absent for other scripted limits: only
    /// a scan would find their buckets.
    pub(crate) active: Option<u64>,
    /// Permits that are held, and waiters for permits, counted over at most 1,000 keys of each shard. Absent for limits
    /// of tokens.
    pub(crate) held: Option<u64>,
    pub(crate) waiting: Option<u64>,
    /// Holds that nobody has settled yet. Absent unless `on_abandon = "refund"`: Redis knows of no others.
    pub(crate) open_holds: Option<u64>,
    /// The parts of a limit with fair shares.
    pub(crate) parts: Option<Vec<PartRow>>,
    pub(crate) mode: &'static str,
    pub(crate) enforce_percent: u8,
    /// Other terms that are tried beside the limit.
    pub(crate) candidate: Option<CandidateRow>,
    /// Tokens per second in the long run; absent for a calendar quota and for windows.
    pub(crate) tokens_per_second: Option<f64>,
    /// Counts of workers since the limit last changed; absent if Redis does not tell.
    pub(crate) counts: Option<BTreeMap<&'static str, u64>>,
    /// Allowed and denied takes per second, over the last 10 seconds.
    pub(crate) allowed_per_second: Option<f64>,
    pub(crate) denied_per_second: Option<f64>,
    /// The most denied keys of the last minutes; absent unless `top_keys` asks for them.
    pub(crate) top_denied: Option<TopDenied>,
    /// Whether trial metrics are counted.
    #[serde(skip)]
    pub(crate) on_trial: bool,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct PartRow {
    /// A key or a pattern.
    pub(crate) part: String,
    pub(crate) weight: u64,
    /// The most tokens of its own, and those that it gets per second.
    pub(crate) capacity: u64,
    pub(crate) tokens_per_second: f64,
    /// Tokens of its own.
    pub(crate) tokens: u64,
    /// Tokens that the others lend to it.
    pub(crate) lent: u64,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct TopDenied {
    /// Whether hashes stand for the keys.
    pub(crate) hashed: bool,
    /// The most denied key first.
    pub(crate) keys: Vec<DeniedKey>,
    /// The most denied takes that a key may have had beyond those told.
    pub(crate) missing: u64,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct DeniedKey {
    pub(crate) key: String,
    pub(crate) denied: u64,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct CandidateRow {
    pub(crate) capacity: u64,
    pub(crate) rate: Option<String>,
}
