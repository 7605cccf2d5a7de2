//! The report of the published state, for `topupd status` and the admin server. Its fields are those of the JSON.

mod bucket;
mod bucket_error;
mod gather;
mod key_plan;
mod limit_row;
mod ownership;
mod pauses;
mod rates;
mod sources;

use std::collections::BTreeMap;

use redis::RedisError;
use serde::Serialize;
use topup_wire::{connection::Cause, scripts::DaemonStatus};

pub(crate) use bucket::{BucketLocation, find_limit, retry_after};
pub(crate) use bucket_error::BucketError;
pub(crate) use gather::{Pace, gather};
pub(crate) use key_plan::{plan_sources, terms_of};
pub(crate) use pauses::PauseRow;
pub(crate) use rates::rates;
pub(crate) use sources::SourceRow;

use crate::{text::utc, trouble};

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

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DaemonRow {
    pub(crate) id: String,
    /// The name of its config, and the hash of the limits in it.
    pub(crate) config: String,
    pub(crate) config_hash: String,
    pub(crate) version: String,
    pub(crate) lag_ms: f64,
    pub(crate) credited: u64,
    /// Corrupt keys that it has repaired.
    pub(crate) repaired: u64,
    /// The first problem of its config on disk, while it refuses that.
    pub(crate) config_refused: Option<String>,
    /// The instant since which it does.
    pub(crate) config_refused_since: Option<String>,
}

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
pub(crate) struct OwnerRow {
    pub(crate) config: String,
    /// Whether a daemon of it is alive.
    pub(crate) alive: bool,
    /// The instant of the last heartbeat, if none is.
    pub(crate) since: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConflictRow {
    pub(crate) limit: String,
    /// The daemon whose config is refused, and that config.
    pub(crate) daemon: String,
    pub(crate) config: String,
    /// The configs that hold the limit with other terms.
    pub(crate) held_by: Vec<String>,
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

// === impl StatusReport ===

impl StatusReport {
    /// Adds a problem, which makes the health `health` or worse.
    pub(crate) fn add_problem(
        &mut self,
        health: Health,
        cause: &'static str,
        what: impl Into<String>,
        action: impl Into<String>,
    ) {
        self.health = self.health.max(health);
        self.problems.push(Problem { cause, what: what.into(), action: action.into() });
    }

    /// Adds the limits that two configs want with different terms.
    pub(crate) fn add_conflicts(&mut self, conflicts: Vec<ConflictRow>) {
        for ConflictRow { limit, daemon, config, held_by } in &conflicts {
            let holder = |holder: &String| match holder == config {
                true => "a newer version of it".to_owned(),
                false if holder.starts_with(ownership::BY_CODE) => holder.clone(),
                false => format!("config {holder}"),
            };
            let by = held_by.iter().map(holder).collect::<Vec<_>>().join(", ");
            let what = format!(
                "limit {limit} is refused to config {config} (daemon {daemon}): {by} holds it with other terms, which \
                 stay in force"
            );
            let action = "write the same terms in both configs or choose another name, then reload";
            self.add_problem(Health::Degraded, "conflict", what, action);
        }
        self.conflicts = conflicts;
    }

    /// Adds the live daemons, and the configs on disk that they refuse.
    pub(crate) fn add_daemons(&mut self, daemons: impl Iterator<Item = DaemonRow>) {
        self.daemons = daemons.collect();
        for daemon in self.daemons.clone() {
            let Some(problem) = daemon.config_refused else { continue };
            let what = format!("daemon {} refuses its config on disk: {problem}", daemon.id);
            let action = "correct the file (`topupd check` names every problem), and reload";
            self.add_problem(Health::Degraded, "config-refused", what, action);
        }
    }

    /// Adds the problem that Redis gives no decisions.
    pub(crate) fn add_refusal(&mut self, cause: Cause, error: &RedisError) {
        let what = format!("{} ({error})", trouble::what(cause));
        let for_root = match cause {
            Cause::Password => "; root can read the credential of the service: try sudo",
            _ => "",
        };
        let action = format!("{}{for_root}", trouble::action(cause));
        self.add_problem(Health::Undecided, cause.as_str(), what, action);
    }
}

// === impl DaemonRow ===

impl From<DaemonStatus> for DaemonRow {
    fn from(DaemonStatus { id, health, .. }: DaemonStatus) -> Self {
        let (config_refused, since) = health.refused.unzip();
        Self {
            id,
            config: health.owner.to_string(),
            config_hash: health.config.to_string(),
            version: health.version,
            lag_ms: health.lag.as_secs_f64() * 1e3,
            credited: health.credited,
            repaired: health.repaired,
            config_refused,
            config_refused_since: since.map(utc),
        }
    }
}
