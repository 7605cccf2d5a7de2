//! The problems that a report tells, each with the action that ends it.

use std::collections::BTreeMap;

use redis::RedisError;
use topup_wire::{connection::Cause, limit::LimitName, scripts::SourceStatus};

use super::{
    daemon_row::DaemonRow,
    ownership::{self, ConflictRow},
    sources::SourceRow,
    status_report::{Health, Problem, StatusReport},
};
use crate::{text::utc, trouble};

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
