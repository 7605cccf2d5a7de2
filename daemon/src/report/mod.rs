//! The report of `topupd status`. Its fields are those of the JSON.

use std::collections::BTreeMap;

use redis::RedisError;
use serde::Serialize;
use topup_wire::{connection::Cause, scripts::DaemonStatus};

use super::exit::Exit;
use crate::{text::utc, trouble};

/// The published state.
#[derive(Debug, Default, Serialize)]
pub(super) struct StatusReport {
    /// The URL of the Redis, without its password.
    pub(super) redis: String,
    /// Time of an answer of Redis; absent if it gave none.
    pub(super) latency_ms: Option<f64>,
    pub(super) health: Health,
    pub(super) problems: Vec<Problem>,
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

/// The worst of all problems, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Health {
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
pub(super) struct Problem {
    /// A word for machines.
    pub(super) cause: &'static str,
    pub(super) what: String,
    pub(super) action: String,
}

#[derive(Clone, Debug, Serialize)]
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

// === impl StatusReport ===

impl StatusReport {
    /// Adds a problem, which makes the health `health` or worse.
    pub(super) fn add_problem(
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
    pub(super) fn add_conflicts(&mut self, conflicts: Vec<ConflictRow>) {
        for ConflictRow { limit, daemon, config, held_by } in &conflicts {
            let holder = |holder: &String| match holder == config {
                true => "a newer version of it".to_owned(),
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
    pub(super) fn add_daemons(&mut self, daemons: impl Iterator<Item = DaemonRow>) {
        self.daemons = daemons.collect();
        for daemon in self.daemons.clone() {
            let Some(problem) = daemon.config_refused else { continue };
            let what = format!("daemon {} refuses its config on disk: {problem}", daemon.id);
            let action = "correct the file (`topupd check` names every problem), and reload";
            self.add_problem(Health::Degraded, "config-refused", what, action);
        }
    }

    /// Adds the problem that Redis gives no decisions.
    pub(super) fn add_refusal(&mut self, cause: Cause, error: &RedisError) {
        let what = format!("{} ({error})", trouble::what(cause));
        let for_root = match cause {
            Cause::Password => "; root can read the credential of the service: try sudo",
            _ => "",
        };
        let action = format!("{}{for_root}", trouble::action(cause));
        self.add_problem(Health::Undecided, cause.as_str(), what, action);
    }
}

// === impl Health ===

impl From<Health> for Exit {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Done,
            Health::Degraded => Self::Degraded,
            Health::NoDaemon => Self::NoDaemon,
            Health::Unpublished => Self::Unpublished,
            Health::Undecided => Self::Undecided,
        }
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
