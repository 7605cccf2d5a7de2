//! The effects of a reload in words.

use std::time::Duration;

use topup_wire::{
    limit::{Algorithm, Limit, OnChange, Supply},
    scripts::FREEZE,
};

use super::{
    change::{keys, parts, penalty},
    note::instant,
    preview::Effect,
};

/// A key of a limit, with its value before and after.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The key, as in a config.
    pub key: &'static str,
    /// Its value as published.
    pub from: String,
    /// Its value after the reload.
    pub to: String,
}

// === impl Effect ===

impl Effect {
    /// The keys that differ.
    pub fn differences(&self) -> Vec<Difference> {
        let Self::Altered { from, to } = self else { return Vec::new() };
        let pairs = described(from).into_iter().zip(described(to));
        let differ = pairs.filter(|(from, to)| from != to);
        differ.map(|((_, from), (key, to))| Difference { key, from, to }).collect()
    }

    /// The fate of the tokens in its buckets; `None` if it is the same as ever.
    pub fn fate(&self) -> Option<&'static str> {
        match self {
            Self::Removed(_) => Some("go"),
            Self::Altered { from, to } => fate(from, to),
            Self::Repaired => Some("stay as they are"),
            _ => None,
        }
    }

    /// The time from the reload to the change. Until then, workers decide by the terms before.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Altered { from, to } if is_frozen_first(from, to) => FREEZE,
            _ => Duration::ZERO,
        }
    }
}

/// The fate of tokens where `from` becomes `to`.
fn fate(from: &Limit, to: &Limit) -> Option<&'static str> {
    if from.keyed != to.keyed || from.algorithm != to.algorithm {
        return Some("begin anew, and full");
    }
    if from.shards != to.shards {
        return Some("whose key moves to another shard begin anew, and full");
    }
    if from.parts != to.parts && from.terms == to.terms {
        return Some("keep their tokens, up to the new parts; new parts begin empty");
    }
    if from.terms == to.terms {
        return None;
    }
    Some(match (to.terms.supply, from.terms.capacity.cmp(&to.terms.capacity)) {
        (Supply::Permits(_), _) => "keep their holders: new ones wait while there are too many",
        (Supply::Windows(_), _) => "keep the takes that they have counted",
        (_, order) if order.is_ne() && to.on_change == OnChange::Reset => "become full",
        (_, order) if order.is_ne() && to.on_change == OnChange::Proportional => {
            "keep their share of the capacity"
        }
        (_, order) if order.is_gt() => "keep their tokens, up to the new capacity",
        _ => "keep their tokens",
    })
}

/// Whether workers are told before the change, as `publish.lua` does.
fn is_frozen_first(from: &Limit, to: &Limit) -> bool {
    let is_steady = |limit: &Limit| limit.terms.supply.lowest_terms().0 > 0;
    let terms = |limit: &Limit| (limit.terms.capacity, limit.terms.supply.lowest_terms());
    from.algorithm == Algorithm::TokenBucket
        && from.keyed == to.keyed
        && (to.algorithm != Algorithm::TokenBucket
            || (terms(from) != terms(to) && (is_steady(from) || is_steady(to))))
}

/// Every key of a published limit with its value.
fn described(limit: &Limit) -> [(&'static str, String); 22] {
    let schedule = limit.schedule.changes().map(|change| {
        format!("from {} rate {} capacity {}", instant(change.at), change.rate, change.capacity)
    });
    let lease = limit.lease.map(|lease| format!("{} for {:?}", lease.max(), lease.ttl()));
    let plans: Vec<String> = limit.plans.names().map(|name| name.to_string()).collect();
    [
        supply(limit),
        ("capacity", limit.terms.capacity.to_string()),
        ("keyed", limit.keyed.to_string()),
        ("algorithm", limit.algorithm.to_string()),
        ("catch_up", limit.catch_up.to_string()),
        ("on_change", limit.on_change.as_str().to_owned()),
        ("shards", limit.shards.get().to_string()),
        ("lease", lease.unwrap_or_else(|| "none".to_owned())),
        ("mode", limit.rollout.mode.as_str().to_owned()),
        ("enforce_percent", limit.rollout.enforced.get().to_string()),
        ("on_outage", limit.on_outage.map_or("unset", |policy| policy.as_str()).to_owned()),
        ("compare_percent", limit.compared.get().to_string()),
        ("candidate", if limit.candidate { "one" } else { "none" }.to_owned()),
        ("top_keys", limit.top_keys.to_string()),
        ("plan", if plans.is_empty() { "none".to_owned() } else { plans.join(" ") }),
        ("keys", keys(&limit.plans)),
        ("penalty", limit.penalty.map_or_else(|| "none".to_owned(), penalty)),
        ("max_debt", limit.holds.max_debt().to_string()),
        ("on_abandon", format!("{} after {:?}", limit.holds.on_abandon().as_str(), limit.holds.ttl())),
        ("parts", parts(&limit.parts)),
        ("tick", format!("{:?}", limit.tick)),
        ("schedule", schedule.collect::<Vec<_>>().join("; ")),
    ]
}

/// The supply of a limit: a key of the config, and its value.
pub fn supply(limit: &Limit) -> (&'static str, String) {
    match limit.terms.supply {
        Supply::Rate(rate) => ("rate", rate.to_string()),
        Supply::Windows(windows) if windows.aligned() => ("rules", format!("{windows} aligned")),
        Supply::Windows(windows) => ("rules", windows.to_string()),
        Supply::Permits(ttl) => ("ttl", ttl.to_string()),
        Supply::Period(period) => ("refill", format!("next at {}", instant(period.next))),
    }
}
