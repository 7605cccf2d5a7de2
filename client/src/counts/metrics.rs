//! Metrics of a worker by the facade `metrics`. docs/metrics.md lists their names.

use std::time::Duration;

use topup_wire::counts::Count;

use crate::shell::Limits;

/// Takes, by limit and decision.
const TAKES: &str = "topup_client_takes_total";
/// The time of a control poll.
const POLL: &str = "topup_client_poll_seconds";
/// Whether the last control poll was answered.
const REDIS_UP: &str = "topup_client_redis_up";

/// Describes all metrics.
pub(crate) fn describe() {
    metrics::describe_counter!(TAKES, "Takes by limit and decision");
    metrics::describe_histogram!(POLL, metrics::Unit::Seconds, "Time of a control poll");
    metrics::describe_gauge!(REDIS_UP, "Whether Redis answered the last control poll");
}

/// Passes new counts to the recorder.
pub(crate) fn emit(limits: &Limits) {
    for limit in limits.all().into_iter().filter(|limit| !limit.name.is_trial()) {
        let new = limit.counts.begin_emission();
        for count in Count::DECISIONS.into_iter().filter(|count| new.get(*count) > 0) {
            let labels = [("limit", limit.name.to_string()), ("decision", count.decision().to_owned())];
            metrics::counter!(TAKES, &labels).increment(new.get(count));
        }
    }
}

/// Passes the end of a control poll to the recorder; `None` if it had no answer.
pub(crate) fn emit_poll(took: Option<Duration>) {
    metrics::gauge!(REDIS_UP).set(if took.is_some() { 1.0 } else { 0.0 });
    if let Some(took) = took {
        metrics::histogram!(POLL).record(took.as_secs_f64());
    }
}
