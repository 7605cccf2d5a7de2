//! The effect of a reload on the parts of a limit with fair shares, and on its source of assignments, in words.

use std::{collections::BTreeMap, fmt};

use topup_wire::{
    limit::{Limit, LimitName, Part},
    scripts::SourceStatus,
};

use crate::{
    config::{Config, SourceConfig},
    text::{counted, grouped},
};

/// A part that becomes another, appears or goes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartChange {
    /// Its name: a key or a pattern.
    pub part: String,
    /// As it is published; `None` for a new one.
    pub from: Option<PartShare>,
    /// As it will be; `None` for one that goes.
    pub to: Option<PartShare>,
}

/// The share of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartShare {
    /// Its weight.
    pub weight: u64,
    /// The weight of all parts.
    pub of: u64,
    /// The most tokens of its own.
    pub capacity: u64,
}

/// A source of assignments that becomes another, appears or goes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SourceChange {
    /// As a daemon reads it; `None` for a new one.
    pub from: Option<String>,
    /// As it will be; `None` for one that goes.
    pub to: Option<String>,
    /// Rows of the one before when it was last read.
    pub rows: u64,
    /// Whether other rows are to be expected: the place or the query is another.
    pub has_other_rows: bool,
}

/// The parts whose share changes, in the order of the limit before, and then of the new one.
pub(super) fn part_changes(from: &Limit, to: &Limit) -> Vec<PartChange> {
    let (from, to) = (shares(from), shares(to));
    let find = |shares: &[(String, PartShare)], name: &str| {
        shares.iter().find(|(part, _)| part == name).map(|(_, share)| *share)
    };
    let names = from.iter().chain(to.iter().filter(|(name, _)| find(&from, name).is_none()));
    let change = |(part, _): &(String, PartShare)| PartChange {
        part: part.clone(),
        from: find(&from, part),
        to: find(&to, part),
    };
    let differs = |change: &PartChange| {
        !change.from.zip(change.to).is_some_and(|(one, other)| one.is_same_share(other))
    };
    names.map(change).filter(differs).collect()
}

/// The parts of a limit; none if it has no fair shares.
fn shares(limit: &Limit) -> Vec<(String, PartShare)> {
    let parts = limit.parts.under(limit.terms.capacity, limit.terms.supply.pace()).unwrap_or_default();
    let of = parts.iter().map(|part| part.weight).sum();
    let share = |Part { name, weight, capacity, .. }| (name, PartShare { weight, of, capacity });
    parts.into_iter().map(share).collect()
}

/// The source of the limit `name` under `config`, beside the one that daemons read, if the two differ.
pub(super) fn source_change(
    name: &LimitName,
    config: &Config,
    told: &BTreeMap<LimitName, SourceStatus>,
) -> Option<SourceChange> {
    let (from, to) = (told.get(name), config.limits.get(name)?.source.as_ref());
    let known = |from: &SourceStatus| match from.settings.as_str() {
        // A daemon of an earlier version tells the name alone.
        "" => from.name.clone(),
        settings => settings.to_owned(),
    };
    let is_same = |from: &SourceStatus, to: &SourceConfig| match from.settings.as_str() {
        "" => from.name == to.place.to_string(),
        settings => settings == to.to_string(),
    };
    let has_same_rows = |from: &SourceStatus, to: &SourceConfig| known(from).starts_with(&to.rows());
    if from.is_none() && to.is_none() || from.zip(to).is_some_and(|(from, to)| is_same(from, to)) {
        return None;
    }
    Some(SourceChange {
        from: from.map(known),
        to: to.map(SourceConfig::to_string),
        rows: from.map_or(0, |from| from.rows),
        has_other_rows: !from.zip(to).is_some_and(|(from, to)| has_same_rows(from, to)),
    })
}

// === impl PartShare ===

impl PartShare {
    fn is_same_share(self, other: Self) -> bool {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        product(self.weight, other.of) == product(other.weight, self.of)
    }
}

impl fmt::Display for PartShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} shares, {}", self.weight, self.of, counted(self.capacity as usize, "token"))
    }
}

// === impl PartChange ===

impl fmt::Display for PartChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {:?}: ", self.part)?;
        match (self.from, self.to) {
            (Some(from), Some(to)) => write!(f, "sure of {from} -> {to}"),
            (None, Some(to)) => write!(f, "new, sure of {to}"),
            (Some(from), None) => write!(f, "removed, was sure of {from}; the other parts get its tokens"),
            (None, None) => Ok(()),
        }
    }
}

// === impl SourceChange ===

impl fmt::Display for SourceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = match self.rows {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", grouped(rows)),
        };
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if self.has_other_rows => {
                write!(
                    f,
                    "source {from} -> {to}; once it is read, its rows replace the {rows} of the one before"
                )
            }
            (Some(from), Some(to)) => write!(f, "source {from} -> {to}; its {rows} stay assigned"),
            (None, Some(to)) => write!(f, "source {to}; its rows are assigned once it is read"),
            (Some(from), None) => {
                write!(f, "source {from} given up; the assignments of its {rows} are taken back")
            }
            (None, None) => Ok(()),
        }
    }
}
