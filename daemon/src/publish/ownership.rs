//! Decides which limits of a config are published, kept and removed, by the claims of all configs.
//!
//! A limit goes only when its own config drops it and no live daemon has it. If two configs have different terms for
//! one limit, the first goes on unchanged. Within one config, the terms that were loaded last are in force.

mod contest;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use topup_wire::{
    claims::{Claim, Declaration, DeclaredLimit, Fingerprint, Owner, Ownership},
    limit::LimitName,
};

use super::note::Note;
use contest::Contest;
pub use plan::{LoadedConfig, Plan};

/// Decides on the limits of `config`.
pub fn decide(config: &LoadedConfig, seen: &Ownership) -> Plan {
    let mut plan = Plan::default();
    for (name, fingerprint) in &config.limits {
        Contest::new(config, seen, name, *fingerprint).decide(&mut plan);
    }
    for (name, claims) in &seen.claims {
        if let Some(own) = claims.get(&config.owner).filter(|_| !config.limits.contains_key(name)) {
            drop_limit(config, seen, (name, own), &mut plan);
        }
    }
    let others = seen.registered.iter().filter(|name| name.live() == **name);
    plan.foreign = others
        .filter(|name| !config.limits.contains_key(*name) && !plan.remove.contains(*name))
        .filter(|name| !seen.defined.contains_key(*name))
        .copied()
        .collect();
    for (daemon, declared) in seen.daemons_of(&config.owner).filter(|(id, _)| *id != config.daemon) {
        if fingerprints(declared) != config.limits {
            let is_newer = declared.loaded > config.loaded;
            let (daemon, owner) = (daemon.to_owned(), config.owner.clone());
            plan.notes.insert(match is_newer {
                true => Note::Newer { daemon, owner },
                false => Note::Lagging { daemon, owner },
            });
        }
    }
    let keeps_claim = |owner: &&Owner| seen.claims.values().any(|claims| claims.contains_key(*owner));
    let gone = seen.last_alive.keys().filter(|owner| !seen.is_alive(owner) && **owner != config.owner);
    plan.change.forget = gone.filter(|owner| !keeps_claim(owner)).cloned().collect();
    plan.change.declare = declare(config, seen, &plan.publish);
    plan
}

/// The declaration of `config`, unless Redis has it already.
fn declare(
    config: &LoadedConfig,
    seen: &Ownership,
    held: &BTreeSet<LimitName>,
) -> Option<(String, Fingerprint, Declaration)> {
    let limit = |(name, fingerprint): (&LimitName, &Fingerprint)| {
        (*name, DeclaredLimit { fingerprint: *fingerprint, held: held.contains(name) })
    };
    let limits = config.limits.iter().map(limit).collect();
    let declared = Declaration { owner: config.owner.clone(), loaded: config.loaded, limits };
    let is_known = seen.daemons.get(&config.daemon) == Some(&declared);
    (!is_known).then(|| (config.daemon.clone(), config.fingerprint(), declared))
}

/// Drops a limit that the config no longer has.
fn drop_limit(config: &LoadedConfig, seen: &Ownership, dropped: (&LimitName, &Claim), plan: &mut Plan) {
    let (name, own) = dropped;
    if own.loaded > config.loaded {
        // A newer version of this config has it.
        return;
    }
    let mut having = seen
        .daemons
        .iter()
        .filter(|(id, declared)| **id != config.daemon && declared.limits.contains_key(name));
    if let Some((daemon, _)) = having.clone().find(|(_, declared)| declared.owner == config.owner) {
        plan.notes.insert(Note::Kept { limit: *name, daemon: daemon.clone() });
    } else if having.next().is_some() || seen.claims_to(name).len() > 1 {
        plan.change.release.push((*name, config.owner.clone()));
    } else {
        plan.remove.insert(*name);
    }
}

fn fingerprints(declared: &Declaration) -> BTreeMap<LimitName, Fingerprint> {
    declared.limits.iter().map(|(name, limit)| (*name, limit.fingerprint)).collect()
}
