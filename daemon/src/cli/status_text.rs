//! The report of `topupd status` as text.

use std::time::Duration;

use topup_wire::{counts::Count, namespace::Namespace};

use super::table::{Table, printable};
use crate::{
    report::{
        CandidateRow, DaemonRow, LimitRow, OwnerRow, PartRow, PauseRow, Problem, SourceRow, StatusReport,
    },
    text::{counted, length},
};

/// The most limits that code has defined, each in a line of its own.
const MOST_DEFINED: usize = 20;

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
    lines.push(String::new());
    lines.push(limits(&report.limits));
    let rows = &report.limits;
    let mut defined: Vec<String> = rows.iter().filter_map(definition).collect();
    let more = defined.len().saturating_sub(MOST_DEFINED) + report.limits_not_shown;
    if !defined.is_empty() {
        defined.truncate(MOST_DEFINED);
        defined.extend((more > 0).then(|| format!("and {} defined by code", counted(more, "more limit"))));
    }
    for section in [
        report.pauses.iter().map(pause).collect(),
        report.sources.iter().map(source).collect(),
        rows.iter().filter_map(permits).collect(),
        defined,
        rows.iter().filter_map(orphan).collect(),
    ] {
        lines.extend((!section.is_empty()).then(String::new));
        lines.extend(section);
    }
    lines.extend(rows.iter().flat_map(trial));
    lines.extend(rows.iter().flat_map(parts));
    lines.extend(rows.iter().flat_map(most_denied));
    lines.join("\n")
}

/// The table of limits.
fn limits(limits: &[LimitRow]) -> String {
    let figures = ["capacity", "rate", "tokens", "active", "allowed/s", "denied/s"];
    let mut table = Table::new(&["limit", "algorithm", "mode"], &figures);
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let pace = |pace: Option<f64>| pace.map_or_else(|| "-".to_owned(), |pace| format!("{pace:.1}"));
    for row in limits {
        table.row([
            row.name.clone(),
            row.algorithm.to_owned(),
            row.mode.to_owned(),
            row.capacity.to_string(),
            row.rate.clone().unwrap_or_else(|| "calendar".to_owned()),
            number(row.tokens),
            number(row.active),
            pace(row.allowed_per_second),
            pace(row.denied_per_second),
        ]);
    }
    table.render()
}

/// The lines about the most denied keys of a limit that tells them.
fn most_denied(row: &LimitRow) -> Vec<String> {
    let Some(top) = row.top_denied.as_ref().filter(|top| !top.keys.is_empty()) else { return Vec::new() };
    let more = if top.missing > 0 { format!(" (each up to {} more)", top.missing) } else { String::new() };
    let mut lines = vec![String::new(), format!("{}: most denied keys of the last minutes{more}", row.name)];
    lines.extend(top.keys.iter().map(|key| format!("  {} denied  {}", key.denied, printable(&key.key))));
    lines
}

/// The line about a paused limit or key.
fn pause(row: &PauseRow) -> String {
    let PauseRow { limit, key, until, left_ms } = row;
    let key = key.as_ref().map(|key| format!(" key {key:?}")).unwrap_or_default();
    let left = length(Duration::from_millis(*left_ms as u64));
    format!("{limit}{key}: paused until {until}, for {left} from now")
}

/// The lines about the parts of a limit with fair shares.
fn parts(row: &LimitRow) -> Vec<String> {
    let Some(parts) = row.parts.as_ref().filter(|parts| !parts.is_empty()) else { return Vec::new() };
    let mut table = Table::new(&["part"], &["weight", "capacity", "tokens", "lent"]);
    for PartRow { part, weight, capacity, tokens, lent, .. } in parts {
        let figures = [weight, capacity, tokens, lent].map(ToString::to_string);
        table.row([printable(part)].into_iter().chain(figures));
    }
    vec![String::new(), format!("{}: parts", row.name), table.render()]
}

/// The line about a source of assignments.
fn source(row: &SourceRow) -> String {
    let SourceRow { limit, source, daemon, rows, last_read, .. } = row;
    let read = last_read
        .as_ref()
        .map_or("not read yet".to_owned(), |at| format!("{} last read {at}", counted(*rows as usize, "row")));
    let by = daemon.as_ref().map_or("no daemon".to_owned(), |daemon| format!("daemon {daemon}"));
    format!("{limit}: assignments of {}: {read}, by {by}", printable(source))
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

/// The line about a limit that code has defined.
fn definition(row: &LimitRow) -> Option<String> {
    let owner = row.owners.first().map(|owner| owner.config.as_str()).unwrap_or_default();
    row.defined_until
        .as_ref()
        .map(|until| format!("{}: defined by code, owner {owner}, until {until}", row.name))
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
