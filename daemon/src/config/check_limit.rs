//! From a raw limit to a checked one: the rules between keys, and the defaults of absent keys.

use std::time::Duration;

use topup_wire::limit::{Algorithm, Holds, LimitName, Percent, Rollout, Shards, TopKeys};

use super::{
    check_algorithm::{check_algorithm, check_compare_percent, check_lease, check_refill},
    check_parts::check_parts,
    diagnostics::Location,
    limit::{LimitConfig, SupplyConfig},
    plans,
    raw_limit::RawLimit,
    raw_table::{RawTable, value},
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
    check_parts(&raw, table);
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
