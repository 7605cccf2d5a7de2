//! The difference between two configs, for the log of a reload.

use std::{fmt, time::Duration};

use topup_wire::{
    claims::Fingerprint,
    limit::{LimitName, Parts, Penalty, Plans},
};

use crate::config::{Candidate, Config, LimitConfig, PlanConfig, ScheduleEntry, SupplyConfig};

/// One difference between two configs.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new limit.
    Added(Box<LimitConfig>),
    /// A limit that is no longer in the config.
    Removed(LimitName),
    /// A limit with other keys.
    Altered {
        /// The limit as it was.
        from: Box<LimitConfig>,
        /// The limit as it is.
        to: Box<LimitConfig>,
    },
    /// Another refill period.
    Tick {
        /// The old period.
        from: Duration,
        /// The new period.
        to: Duration,
    },
}

/// The fingerprint of all that the config says of `limit`.
pub fn fingerprint(limit: &LimitConfig, tick: Duration) -> Fingerprint {
    let keys = described(limit).map(|(key, value)| format!("{key} {value}"));
    Fingerprint::of(&format!("{}, tick {tick:?}", keys.join(", ")))
}

/// The changes that turn `old` into `new`, in order of names; empty if the two are equal.
pub fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.tick != new.tick {
        changes.push(Change::Tick { from: old.tick, to: new.tick });
    }
    let gone = old.limits.keys().filter(|name| !new.limits.contains_key(*name));
    changes.extend(gone.cloned().map(Change::Removed));
    for (name, to) in &new.limits {
        match old.limits.get(name) {
            None => changes.push(Change::Added(to.clone().into())),
            Some(from) if from != to => {
                changes.push(Change::Altered { from: from.clone().into(), to: to.clone().into() })
            }
            Some(_) => {}
        }
    }
    changes
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(limit) => {
                let (key, text) = supply(&limit.supply);
                write!(f, "limit {}: new, capacity {}, {key} {text}", limit.name, limit.capacity)
            }
            Self::Removed(name) => write!(f, "limit {name}: removed"),
            Self::Tick { from, to } => write!(f, "tick {from:?} -> {to:?}"),
            Self::Altered { from, to } => {
                let differences: Vec<String> = described(from)
                    .into_iter()
                    .zip(described(to))
                    .filter(|(from, to)| from != to)
                    .map(arrow)
                    .collect();
                write!(f, "limit {}: {}", to.name, differences.join(", "))
            }
        }
    }
}

fn arrow(((old_key, from), (new_key, to)): ((&'static str, String), (&'static str, String))) -> String {
    let new_key = if old_key == new_key { String::new() } else { format!("{new_key} ") };
    format!("{old_key} {from} -> {new_key}{to}")
}

/// Every key of a limit with its value, as text.
fn described(limit: &LimitConfig) -> [(&'static str, String); 23] {
    [
        ("capacity", limit.capacity.to_string()),
        supply(&limit.supply),
        ("keyed", limit.keyed.to_string()),
        ("algorithm", limit.algorithm.to_string()),
        ("catch_up", limit.catch_up.to_string()),
        ("on_change", limit.on_change.as_str().to_owned()),
        ("shards", limit.shards.get().to_string()),
        (
            "lease",
            limit
                .lease
                .map_or_else(|| "none".to_owned(), |lease| format!("{} for {:?}", lease.max(), lease.ttl())),
        ),
        ("mode", limit.rollout.mode.as_str().to_owned()),
        ("enforce_percent", limit.rollout.enforced.get().to_string()),
        (
            "on_outage",
            limit.on_outage.map_or_else(|| "unset".to_owned(), |policy| policy.as_str().to_owned()),
        ),
        ("candidate", limit.candidate.as_ref().map_or_else(|| "none".to_owned(), candidate)),
        ("compare_percent", limit.compared.get().to_string()),
        ("top_keys", limit.top_keys.to_string()),
        ("plan", limit.plans.iter().map(plan).collect::<Vec<_>>().join("; ")),
        ("keys", keys(&limit.plans())),
        ("parts", parts(&limit.parts)),
        ("source", limit.source.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)),
        ("penalty", limit.penalty.map_or_else(|| "none".to_owned(), penalty)),
        ("max_debt", limit.holds.max_debt().to_string()),
        ("on_abandon", limit.holds.on_abandon().as_str().to_owned()),
        ("hold_ttl", format!("{:?}", limit.holds.ttl())),
        ("schedule", limit.schedule.iter().map(entry).collect::<Vec<_>>().join("; ")),
    ]
}

fn plan((name, terms): &PlanConfig) -> String {
    format!("{name} {}", candidate(terms))
}

/// The parts of a limit by weight.
pub(super) fn parts(parts: &Parts) -> String {
    if parts.is_empty() {
        return "none".to_owned();
    }
    let all: Vec<String> = parts.iter().map(|(name, weight)| format!("{name:?} {weight}")).collect();
    all.join(" ")
}

/// The assignments of a limit: as many as there are, and their hash.
pub(super) fn keys(plans: &Plans) -> String {
    let assigned: Vec<_> = plans.assigned().map(|(key, to)| (key.to_owned(), to)).collect();
    if assigned.is_empty() {
        return "none".to_owned();
    }
    let number = assigned.len();
    format!("{number} assigned ({})", Fingerprint::of(&Plans::new([], assigned).to_string()))
}

fn supply(supply: &SupplyConfig) -> (&'static str, String) {
    match supply {
        SupplyConfig::Rate(rate) => ("rate", rate.to_string()),
        SupplyConfig::Windows(windows) if windows.aligned() => ("rules", format!("{windows} aligned")),
        SupplyConfig::Windows(windows) => ("rules", windows.to_string()),
        SupplyConfig::Permits(ttl) => ("ttl", ttl.to_string()),
        SupplyConfig::Calendar(calendar) => ("refill", format!("{:?} {}", calendar.text(), calendar.zone())),
    }
}

pub(super) fn penalty(penalty: Penalty) -> String {
    format!(
        "after {} in {:?}, {:?} to {:?}, {} times as long each",
        penalty.after(),
        penalty.within(),
        penalty.block(),
        penalty.longest(),
        penalty.factor(),
    )
}

fn candidate(candidate: &Candidate) -> String {
    match candidate {
        Candidate::Windows(windows) => windows.to_string(),
        Candidate::Steady { capacity, rate } => {
            let keys = [
                capacity.map(|capacity| format!("capacity {capacity}")),
                rate.map(|rate| format!("rate {rate}")),
            ];
            keys.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
    }
}

fn entry(entry: &ScheduleEntry) -> String {
    let rate = entry.rate.map(|rate| format!(" rate {rate}")).unwrap_or_default();
    let capacity = entry.capacity.map(|capacity| format!(" capacity {capacity}")).unwrap_or_default();
    format!("from {:?} {}{rate}{capacity}", entry.calendar.text(), entry.calendar.zone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "config.toml").unwrap()
    }

    /// `old` with the changes applied.
    fn applied(old: &Config, changes: &[Change]) -> Config {
        let mut config = old.clone();
        for change in changes {
            match change {
                Change::Added(to) => drop(config.limits.insert(to.name, (**to).clone())),
                Change::Altered { to, .. } => drop(config.limits.insert(to.name, (**to).clone())),
                Change::Removed(name) => {
                    config.limits.remove(name);
                }
                Change::Tick { to, .. } => config.tick = *to,
            }
        }
        config
    }

    #[test]
    fn old_and_the_changes_make_new() {
        let old = config("[limit.a]\ncapacity = 1\nrate = \"1/s\"\n[limit.b]\ncapacity = 1\nrate = \"1/s\"");
        let new = config(
            "[daemon]\ntick = \"50ms\"\n[limit.b]\ncapacity = 2\nrate = \"1/s\"\n[limit.c]\ncapacity = 1\nrate = \"1/s\"",
        );
        let changes = super::changes(&old, &new);
        assert_eq!(applied(&old, &changes), new);
        let lines: Vec<String> = changes.iter().map(Change::to_string).collect();
        let expected = [
            "tick 100ms -> 50ms",
            "limit a: removed",
            "limit b: capacity 1 -> 2",
            "limit c: new, capacity 1, rate 1/s",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_same_config_changes_nothing() {
        let config = config("[limit.a]\ncapacity = 1\nrate = \"60/min\"");
        assert_eq!(changes(&config, &config), []);
    }
}
