//! From a raw limit to a checked one: the rules between keys, and the defaults of absent keys.

use std::{iter, time::Duration};

use topup_wire::limit::{Algorithm, GCRA_BOUNDS, Holds, LimitName, Percent, Rollout, Shards, TopKeys};

use super::{
    diagnostics::Location,
    limit::{LimitConfig, ScheduleEntry, SupplyConfig},
    parts, plans,
    raw_limit::RawLimit,
    raw_table::{Located, RawTable},
    warnings,
};

/// The shards of a keyed limit that names no number: enough to spread it over a small cluster.
const KEYED_SHARDS: u64 = 8;

/// The limit of `raw`, which stands in `table`. `None` if the limit has no legal `name` or a key that it needs is not
/// there, as reported. Keys that do not go together are reported, too.
pub(super) fn check(
    raw: RawLimit,
    table: &RawTable<'_>,
    name: Option<LimitName>,
    tick: Duration,
) -> Option<LimitConfig> {
    if !value(raw.algorithm.as_ref())
        .is_some_and(|algorithm| algorithm.has_windows() || algorithm.has_permits())
    {
        check_refill(&raw, table);
        check_algorithm(&raw, table);
    }
    check_keyed(&raw, table);
    check_lease(&raw, table);
    check_compare_percent(&raw, table);
    check_max_debt(&raw, table);
    parts::check(&raw, table);
    let top_keys = top_keys(&raw, table);
    plans::check_keys(&raw.plans, &raw.keys, table);
    let has_parts = value(raw.algorithm.as_ref()).is_some_and(Algorithm::has_parts);
    if has_parts && raw.parts.is_none() {
        return None;
    }
    let keyed = has_parts || raw.keyed.is_some_and(|keyed| keyed.value);
    let supply = match (&raw.rate, raw.refill, &raw.windows) {
        _ if raw.permits.is_some() => SupplyConfig::Permits(raw.permits.as_ref()?.value.ttl),
        (.., Some(windows)) => SupplyConfig::Windows(windows.value),
        (_, Some(calendar), _) => SupplyConfig::Calendar(calendar),
        (Some(rate), ..) => SupplyConfig::Rate(rate.value),
        _ => return None,
    };
    let capacity = match supply {
        SupplyConfig::Windows(windows) => windows.capacity(),
        SupplyConfig::Permits(_) => raw.permits.as_ref()?.value.limit,
        _ => raw.capacity?.value,
    };
    let default_shards = if keyed && !has_parts { Shards::new(KEYED_SHARDS).ok()? } else { Shards::ONE };
    let limit = LimitConfig {
        name: name?,
        keyed,
        algorithm: value(raw.algorithm.as_ref()).unwrap_or_default(),
        capacity,
        supply,
        catch_up: value(raw.catch_up.as_ref()).unwrap_or(true),
        on_change: value(raw.on_change.as_ref()).unwrap_or_default(),
        shards: value(raw.shards.as_ref()).unwrap_or(default_shards),
        lease: value(raw.lease.as_ref()),
        rollout: Rollout {
            mode: value(raw.mode.as_ref()).unwrap_or_default(),
            enforced: value(raw.enforce_percent.as_ref()).unwrap_or_default(),
        },
        on_outage: value(raw.on_outage.as_ref()),
        candidate: raw.candidate.map(|candidate| candidate.value),
        compared: value(raw.compare_percent.as_ref()).unwrap_or(Percent::NONE),
        top_keys,
        plans: raw.plans,
        keys: raw.keys.into_iter().map(|key| key.value).collect(),
        source: raw.source,
        penalty: value(raw.penalty.as_ref()),
        parts: raw.parts.map(|parts| parts.value).unwrap_or_default(),
        holds: Holds::new(
            value(raw.max_debt.as_ref()).unwrap_or(0),
            value(raw.on_abandon.as_ref()).unwrap_or_default(),
            value(raw.hold_ttl.as_ref()).unwrap_or(Holds::DEFAULT_TTL),
        )
        .unwrap_or_default(),
        schedule: raw.schedule.iter().map(|entry| entry.value.clone()).collect(),
    };
    let entries: Vec<Location> = raw.schedule.into_iter().map(|entry| entry.location).collect();
    warnings::warn(&limit, table, raw.rate.as_ref().map(|rate| &rate.location), &entries, tick);
    Some(limit)
}

fn value<T: Copy>(located: Option<&Located<T>>) -> Option<T> {
    located.map(|located| located.value)
}

/// The keys that are told, as hashes or as they are.
fn top_keys(raw: &RawLimit, table: &RawTable<'_>) -> TopKeys {
    if let Some(hashed) = raw.hash_top_keys.as_ref().filter(|hashed| hashed.value && !table.has("top_keys")) {
        table.error(
            &hashed.location,
            "no keys are told that could be hashed: write top_keys = 20, or remove hash_top_keys",
        );
    }
    let is_hashed = value(raw.hash_top_keys.as_ref()).unwrap_or_default();
    value(raw.top_keys.as_ref()).unwrap_or_default().hashed(is_hashed)
}

fn check_refill(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(refill) = table.find("refill") else { return };
    if table.has("rate") {
        table.error(&refill, "a limit has rate or refill, never both: remove one of them");
    }
    if let Some(off) = raw.catch_up.as_ref().filter(|catch_up| !catch_up.value) {
        table.error(&off.location, "a limit with refill has no rate to catch up with: remove catch_up");
    }
}

fn check_algorithm(raw: &RawLimit, table: &RawTable<'_>) {
    let is_scripted = |algorithm: &&Located<Algorithm>| algorithm.value.is_script_only();
    let Some(Located { value: algorithm, location }) = raw.algorithm.as_ref().filter(is_scripted) else {
        return;
    };
    if table.has("refill") {
        let advice = "write algorithm = \"token-bucket\", or a rate for refill";
        table.error(location, format!("the daemon does not fill buckets of {algorithm}: {advice}"));
    }
    if let Some(off) = raw.catch_up.as_ref().filter(|catch_up| !catch_up.value) {
        let advice = "remove catch_up, or write algorithm = \"token-bucket\"";
        table.error(&off.location, format!("{algorithm} credits at every take: {advice}"));
    }
    if *algorithm == Algorithm::Gcra {
        check_gcra(raw, table);
    }
}

/// GCRA keeps one instant in µs per bucket, so it bounds the rate and the time to fill.
fn check_gcra(raw: &RawLimit, table: &RawTable<'_>) {
    let (Some(capacity), Some(rate)) = (&raw.capacity, &raw.rate) else { return };
    let scheduled = raw.schedule.iter().map(|entry| {
        let ScheduleEntry { capacity: other_capacity, rate: other_rate, .. } = &entry.value;
        (&entry.location, other_capacity.unwrap_or(capacity.value), other_rate.unwrap_or(rate.value))
    });
    for (location, capacity, rate) in
        iter::once((&rate.location, capacity.value, rate.value)).chain(scheduled)
    {
        if !rate.pace().can_rest(capacity.get()) {
            table.error(location, format!("{GCRA_BOUNDS}: write less, or algorithm = \"lazy-token-bucket\""));
        }
    }
}

fn check_lease(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(lease) = &raw.lease else { return };
    check_token_bucket(
        raw,
        table,
        &lease.location,
        "only token buckets are leased: remove lease, or write algorithm = \"token-bucket\"",
        "a limit with refill cannot be leased: remove lease, or write a rate for refill",
    );
    if let Some(capacity) = &raw.capacity
        && let Err(error) = lease.value.check_size(capacity.value)
    {
        table.error(&lease.location, error.to_string());
    }
}

fn check_compare_percent(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(percent) = &raw.compare_percent else { return };
    check_token_bucket(
        raw,
        table,
        &percent.location,
        "only token buckets are compared with lazy ones: remove compare_percent, or write algorithm = \"token-bucket\"",
        "a lazy bucket has no refill to be compared with: remove compare_percent, or write a rate for refill",
    );
}

/// Time repays debt, so there has to be a rate that every take credits.
fn check_max_debt(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(debt) = raw.max_debt.as_ref().filter(|debt| debt.value > 0) else { return };
    if table.has("refill") {
        let advice = "remove max_debt, or write a rate for refill";
        table.error(&debt.location, format!("no rate repays the debt of a limit with refill: {advice}"));
    }
    if raw.catch_up.as_ref().is_some_and(|catch_up| !catch_up.value) {
        let advice = "remove max_debt or catch_up";
        table.error(&debt.location, format!("without catch_up, takes repay no debt: {advice}"));
    }
}

/// Reports a key that only a token bucket with a rate may have: one message for another algorithm, one for `refill`.
fn check_token_bucket(
    raw: &RawLimit,
    table: &RawTable<'_>,
    location: &Location,
    other_algorithm: &str,
    refill: &str,
) {
    if value(raw.algorithm.as_ref()).is_some_and(|algorithm| algorithm != Algorithm::TokenBucket) {
        table.error(location, other_algorithm);
    }
    if table.has("refill") {
        table.error(location, refill);
    }
}

/// Reports keys that only a keyed limit may have.
fn check_keyed(raw: &RawLimit, table: &RawTable<'_>) {
    // A wrong value of `keyed` is reported already, and may have meant true.
    let has_parts = value(raw.algorithm.as_ref()).is_some_and(Algorithm::has_parts);
    let is_unkeyed = if table.has("keyed") { value(raw.keyed.as_ref()) == Some(false) } else { !has_parts };
    for (key, problem) in [
        (
            "shards",
            "an unkeyed limit has one bucket, which cannot be spread: remove shards, or write keyed = true",
        ),
        (
            "enforce_percent",
            "an unkeyed limit has one bucket for all, and no keys to choose from: remove enforce_percent, or write \
             mode = \"shadow\" or keyed = true",
        ),
        ("plan", "an unkeyed limit has no keys with a plan: remove plan, or write keyed = true"),
        ("keys", "an unkeyed limit has no keys: remove this, or write keyed = true"),
        ("source", "an unkeyed limit has no keys to assign: remove source, or write keyed = true"),
        ("penalty", "an unkeyed limit has no keys to block: remove penalty, or write keyed = true"),
        ("top_keys", "an unkeyed limit has no keys to tell: remove top_keys, or write keyed = true"),
    ] {
        if let Some(location) = table.find(key).filter(|_| is_unkeyed) {
            table.error(&location, problem);
        }
    }
}
