//! The report of `topupd status`. Its fields are those of the JSON.

use std::collections::BTreeMap;

use redis::RedisError;
use serde::Serialize;
use topup_wire::{connection::Cause, scripts::DaemonStatus};

use super::exit::Exit;
use crate::trouble;

/// The published state.
#[derive(Debug, Default, Serialize)]
pub(super) struct StatusReport {
    /// The URL of the Redis, without its password.
    pub(super) redis: String,
    /// Time of an answer of Redis; absent if it gave none.
    pub(super) latency_ms: Option<f64>,
    pub(super) health: Health,
    pub(super) problems: Vec<Problem>,
    /// The number of the last publication; absent if nothing is published.
    pub(super) generation: Option<u64>,
    pub(super) daemons: Vec<DaemonRow>,
    pub(super) limits: Vec<LimitRow>,
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

#[derive(Debug, Serialize)]
pub(super) struct DaemonRow {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) lag_ms: f64,
    pub(super) credited: u64,
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
    fn from(DaemonStatus { id, health }: DaemonStatus) -> Self {
        Self {
            id,
            version: health.version,
            lag_ms: health.lag.as_secs_f64() * 1e3,
            credited: health.credited,
        }
    }
}
