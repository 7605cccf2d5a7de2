//! The parts of `topupd status` on the configs that hold limits.

use topup_wire::{
    claims::{Owner, Ownership},
    limit::LimitName,
};

use super::{ConflictRow, OwnerRow};
use crate::publish::instant;

/// The configs that hold the limit `name`.
pub(super) fn owners(name: &LimitName, seen: &Ownership) -> Vec<OwnerRow> {
    let row = |owner: Owner| {
        let alive = seen.is_alive(&owner);
        let last = seen.last_alive.get(&owner).filter(|_| !alive);
        OwnerRow { config: owner.to_string(), alive, since: last.map(|micros| instant(*micros)) }
    };
    seen.claims_to(name).into_keys().map(row).collect()
}

/// Limits of live daemons that another config, or a newer version of theirs, holds with other terms.
pub(super) fn conflicts(seen: &Ownership) -> Vec<ConflictRow> {
    let mut rows = Vec::new();
    for (daemon, declared) in &seen.daemons {
        for (name, limit) in declared.limits.iter().filter(|(_, limit)| !limit.held) {
            let claims = seen.claims_to(name);
            let holds = claims.iter().filter(|(_, claim)| claim.fingerprint != limit.fingerprint);
            let held_by: Vec<String> = holds.map(|(owner, _)| owner.to_string()).collect();
            if !held_by.is_empty() {
                let (daemon, config) = (daemon.clone(), declared.owner.to_string());
                rows.push(ConflictRow { limit: name.to_string(), daemon, config, held_by });
            }
        }
    }
    rows
}
