//! The news of an instant without limits: this daemon, its config, and the published state.

use std::time::Duration;

use serde_json::{Value, json};

use super::state::AdminState;
use crate::{clock::Moment, refill::EngineStatus, report::StatusReport, text::utc, trouble};

/// The news now without limits. The report, if there is one, has an age.
pub(super) fn head(state: &AdminState, report: Option<(&StatusReport, Duration)>) -> Value {
    let (status, config) = (state.status(), state.config());
    let now = report.and_then(|(report, age)| Some(report.now? + age.as_micros() as u64));
    let schedules = now.map(|now| state.upcoming(&config.config, now)).unwrap_or_default();
    let trouble =
        status.cause.map(|cause| json!({ "what": trouble::what(cause), "action": trouble::action(cause) }));
    json!({
        "now": now.map(utc),
        "daemon": {
            "id": state.daemon(), "version": env!("CARGO_PKG_VERSION"), "connected": status.connected,
            "trouble": trouble, "slow_ms": status.slow.map(millis), "awaits": awaited(&status),
            "lag_ms": millis(status.lag), "generation": status.generation, "shards": status.shards,
            "credited": status.credited, "notes": status.notes,
        },
        "config": {
            "name": config.owner.to_string(), "file": config.file.display().to_string(),
            "applied_s_ago": config.applied.map(Moment::elapsed).map(|ago| ago.as_secs()),
            "changes": config.changes, "problems": config.refused,
            "refused_since": status.refused_since.map(utc),
        },
        "schedules": schedules,
        "may_act": state.may_act(),
        "report_age_ms": report.map(|(_, age)| millis(age)),
        "report": report.map(|(report, _)| json!({
            "redis": report.redis, "namespace": report.namespace, "latency_ms": report.latency_ms,
            "health": report.health, "problems": report.problems, "daemons": report.daemons,
            "limits_not_shown": report.limits_not_shown, "pauses": report.pauses,
        })),
    })
}

/// The conditions that the daemon waits for before it is ready.
pub(super) fn awaited(status: &EngineStatus) -> Vec<String> {
    let mut awaited = Vec::new();
    if !status.connected {
        awaited.push(match status.cause {
            Some(cause) => format!("Redis: {}", trouble::what(cause)),
            None => "Redis: the first answer".to_owned(),
        });
    }
    if let Some(newer) = status.newer_schema {
        awaited.push(format!("an upgrade of this daemon: {newer}"));
    }
    if status.nothing_published {
        awaited.push("a config without mistakes: nothing is published".to_owned());
    }
    if !status.ready {
        awaited.push("the first refill of every published shard".to_owned());
    }
    awaited
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}
