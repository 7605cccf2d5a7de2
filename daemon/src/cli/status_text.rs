//! The report of `topupd status` as text.

use std::time::Duration;

use topup_wire::{counts::Count, namespace::Namespace};

use crate::{
    report::{CandidateRow, DaemonRow, LimitRow, OwnerRow, PauseRow, Problem, StatusReport},
    text::{counted, length},
};

/// The report as text.
pub(super) fn render(report: &StatusReport) -> String {
    let mut lines = vec![match report.latency_ms {
        Some(latency) => format!("Redis {}, answers in {latency:.1} ms", report.redis),
        None => format!("Redis {}, no answer", report.redis),
    }];
    if report.namespace != Namespace::default().as_str() {
        lines.push(format!("namespace {}", report.namespace));
    }
    for Problem { what, action, .. } in &report.problems {
        lines.push(format!("problem: {what}"));
        lines.push(format!("  to do: {action}"));
    }
    if report.problems.is_empty() {
        lines.push("healthy".to_owned());
    }
    let Some(generation) = report.generation else { return lines.join("\n") };
    lines.push(format!("generation {generation}"));
    lines.push(format!("{} alive", counted(report.daemons.len(), "daemon")));
    for daemon in &report.daemons {
        let DaemonRow { id, version, lag_ms, credited, repaired, config, .. } = daemon;
        let repaired =
            if *repaired > 0 { format!("  {repaired} corrupt keys repaired") } else { String::new() };
        lines.push(format!(
            "  {id}  version {version}  config {config}  lag {lag_ms:.1} ms  {credited} buckets credited{repaired}"
        ));
        if let (Some(problem), Some(since)) = (&daemon.config_refused, &daemon.config_refused_since) {
            lines.push(format!("    config on disk refused since {since}: {problem}"));
        }
    }
    let width = report.limits.iter().map(|row| row.name.len()).max().unwrap_or(0).max(5);
    lines.push(String::new());
    lines.push(format!(
        "{:width$}  {:17}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
        "limit", "algorithm", "capacity", "rate", "tokens", "active", "allowed/s", "denied/s"
    ));
    for row in &report.limits {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let rate = row.rate.as_deref().unwrap_or("calendar");
        let (tokens, active) = (number(row.tokens), number(row.active));
        let pace = |pace: Option<f64>| pace.map_or_else(|| "-".to_owned(), |pace| format!("{pace:.1}"));
        let (allowed, denied) = (pace(row.allowed_per_second), pace(row.denied_per_second));
        lines.push(format!(
            "{:width$}  {:17}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
            row.name, row.algorithm, row.capacity, rate, tokens, active, allowed, denied
        ));
    }
    if !report.pauses.is_empty() {
        lines.push(String::new());
        lines.extend(report.pauses.iter().map(pause));
    }
    let held: Vec<String> = report.limits.iter().filter_map(permits).collect();
    if !held.is_empty() {
        lines.push(String::new());
        lines.extend(held);
    }
    let findings: Vec<String> = report.limits.iter().filter_map(orphan).collect();
    if !findings.is_empty() {
        lines.push(String::new());
        lines.extend(findings);
    }
    lines.extend(report.limits.iter().flat_map(trial));
    lines.join("\n")
}

/// The line about a paused limit or key.
fn pause(row: &PauseRow) -> String {
    let PauseRow { limit, key, until, left_ms } = row;
    let key = key.as_ref().map(|key| format!(" key {key:?}")).unwrap_or_default();
    let left = length(Duration::from_millis(*left_ms as u64));
    format!("{limit}{key}: paused until {until}, for {left} from now")
}

/// The line about permits that are held.
fn permits(row: &LimitRow) -> Option<String> {
    let (name, held, waiting) = (&row.name, row.held?, row.waiting?);
    let of = match row.keyed {
        true => {
            format!("permits held, of {} with {} each", counted(row.active? as usize, "key"), row.capacity)
        }
        false => format!("of {} permits held", row.capacity),
    };
    Some(format!("{name}: {held} {of}; {}", counted(waiting as usize, "waiter")))
}

/// The line about a limit whose owner has no live daemon.
fn orphan(row: &LimitRow) -> Option<String> {
    let owner = |owner: &OwnerRow| {
        let since = owner.since.as_ref().map(|since| format!(" since {since}"));
        format!("config {}, no daemon{}", owner.config, since.unwrap_or_default())
    };
    let owners: Vec<String> = row.owners.iter().map(owner).collect();
    let owners = if owners.is_empty() { "no config holds it".to_owned() } else { owners.join("; ") };
    row.orphaned
        .then(|| format!("{}: orphaned, in force until it is removed or taken over: {owners}", row.name))
}

/// The lines about a limit on trial: its own counts, those of its candidate, and the comparison with lazy buckets.
fn trial(row: &LimitRow) -> Vec<String> {
    let Some(counts) = row.counts.as_ref().filter(|_| row.on_trial) else { return Vec::new() };
    let count = |count: Count| counts.get(count.as_str()).copied().unwrap_or(0);
    let share = if row.enforce_percent < 100 {
        format!(" for {} of 100 keys", row.enforce_percent)
    } else {
        String::new()
    };
    let mut lines = vec![
        String::new(),
        format!(
            "{}: {}{share}: {} allowed, {} denied, {} would be denied, {} degraded, {} undecided",
            row.name,
            row.mode,
            count(Count::Allowed),
            count(Count::Denied),
            count(Count::WouldDeny),
            count(Count::Degraded),
            count(Count::Undecided),
        ),
    ];
    if let Some(CandidateRow { capacity, rate }) = &row.candidate {
        lines.push(format!(
            "  candidate, capacity {capacity}, {}: {} would be allowed, {} would be denied, {} not asked",
            rate.as_deref().unwrap_or("calendar"),
            count(Count::CandidateAllowed),
            count(Count::CandidateDenied),
            count(Count::CandidateUnasked),
        ));
    }
    let [both, ours, lazy, neither] =
        [Count::BothAllowed, Count::OnlyOurs, Count::OnlyLazy, Count::BothDenied].map(count);
    let compared = both + ours + lazy + neither;
    if compared + count(Count::Uncompared) > 0 {
        lines.push(format!(
            "  lazy-token-bucket beside it: {both} both allow, {ours} only this, {lazy} only lazy, {neither} both deny; \
             {:.2} tokens apart, {} at most; {} not compared",
            count(Count::Difference) as f64 / compared.max(1) as f64,
            count(Count::LargestDifference),
            count(Count::Uncompared),
        ));
    }
    lines
}
