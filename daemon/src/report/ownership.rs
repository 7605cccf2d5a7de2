//! The configs that hold limits, in a report.

use serde::Serialize;
use topup_wire::{
    claims::{Owner, Ownership},
    limit::LimitName,
};

use crate::publish::instant;

/// Stands before the owner of a limit that code has defined.
pub(super) const BY_CODE: &str = "code of ";

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct OwnerRow {
    pub(crate) config: String,
    /// Whether a daemon of it is alive.
    pub(crate) alive: bool,
    /// The instant of the last heartbeat, if none is.
    pub(crate) since: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConflictRow {
    pub(crate) limit: String,
    /// The daemon whose config is refused, and that config.
    pub(crate) daemon: String,
    pub(crate) config: String,
    /// The configs that hold the limit with other terms.
    pub(crate) held_by: Vec<String>,
}

/// The configs that hold the limit `name`, or the owner of its definition by code.
pub(super) fn owners(name: &LimitName, seen: &Ownership) -> Vec<OwnerRow> {
    let row = |owner: Owner| {
        let alive = seen.is_alive(&owner);
        let last = seen.last_alive.get(&owner).filter(|_| !alive);
        OwnerRow { config: owner.to_string(), alive, since: last.map(|micros| instant(*micros)) }
    };
    if let Some(definition) = seen.defined.get(name) {
        return vec![OwnerRow { config: definition.owner.to_string(), alive: true, since: None }];
    }
    seen.claims_to(name).into_keys().map(row).collect()
}

/// Limits of live daemons that another config, or a newer version of theirs, holds with other terms.
pub(super) fn conflicts(seen: &Ownership) -> Vec<ConflictRow> {
    let mut rows = Vec::new();
    for (daemon, declared) in &seen.daemons {
        for (name, limit) in declared.limits.iter().filter(|(_, limit)| !limit.held) {
            let claims = seen.claims_to(name);
            let holds = claims.iter().filter(|(_, claim)| claim.fingerprint != limit.fingerprint);
            let mut held_by: Vec<String> = holds.map(|(owner, _)| owner.to_string()).collect();
            held_by.extend(seen.defined.get(name).map(|definition| format!("{BY_CODE}{}", definition.owner)));
            if !held_by.is_empty() {
                let (daemon, config) = (daemon.clone(), declared.owner.to_string());
                rows.push(ConflictRow { limit: name.to_string(), daemon, config, held_by });
            }
        }
    }
    rows
}
