//! Decides which limits of a config are published, kept and removed, by the claims of all configs.
//!
//! A limit goes only when its own config drops it and no live daemon has it. If two configs have different terms for
//! one limit, the first goes on unchanged. Within one config, the terms that were loaded last are in force.

use std::collections::{BTreeMap, BTreeSet};

use topup_wire::{
    claims::{Claim, Declaration, DeclaredLimit, Fingerprint, Owner, Ownership},
    limit::LimitName,
    scripts::ClaimChange,
};

use super::note::Note;

/// The config of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedConfig {
    /// The daemon's id.
    pub daemon: String,
    /// The config's name.
    pub owner: Owner,
    /// The instant at which it was loaded, in µs of Redis `TIME`.
    pub loaded: u64,
    /// Its limits.
    pub limits: BTreeMap<LimitName, Fingerprint>,
    /// Limits that it may take over from configs without a live daemon.
    pub take_over: BTreeSet<LimitName>,
    /// Limits that were refused when it last claimed them.
    pub refused: BTreeSet<LimitName>,
}

/// The effect of the claims on one config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Limits that this config publishes.
    pub publish: BTreeSet<LimitName>,
    /// Limits that nobody has any more.
    pub remove: BTreeSet<LimitName>,
    /// Published limits that are not of this config, and stay.
    pub foreign: BTreeSet<LimitName>,
    /// Findings for people.
    pub notes: BTreeSet<Note>,
    /// The change of claims, before anything is published.
    pub change: ClaimChange,
}

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

/// The claims to one limit of a config.
struct Contest<'a> {
    config: &'a LoadedConfig,
    seen: &'a Ownership,
    name: &'a LimitName,
    /// The terms that the config wants.
    desired: Fingerprint,
    /// The claim of the config.
    own: Option<Claim>,
    /// The claims of other configs.
    others: BTreeMap<Owner, Claim>,
}

// === impl LoadedConfig ===

impl LoadedConfig {
    /// The hash of all limits.
    pub fn fingerprint(&self) -> Fingerprint {
        let limits = self.limits.iter().map(|(name, fingerprint)| format!("{name} {fingerprint}"));
        Fingerprint::of(&limits.collect::<Vec<_>>().join(" "))
    }
}

// === impl Plan ===

impl Plan {
    /// Limits of the config that it does not publish.
    pub fn refused(&self, config: &LoadedConfig) -> BTreeSet<LimitName> {
        config.limits.keys().filter(|name| !self.publish.contains(*name)).copied().collect()
    }
}

// === impl Contest ===

impl<'a> Contest<'a> {
    fn new(config: &'a LoadedConfig, seen: &'a Ownership, name: &'a LimitName, desired: Fingerprint) -> Self {
        let mut others = seen.claims_to(name);
        let own = others.remove(&config.owner);
        Self { config, seen, name, desired, own, others }
    }

    fn decide(&self, plan: &mut Plan) {
        if let Some(definition) = self.seen.defined.get(self.name).filter(|_| self.own.is_none()) {
            plan.notes.insert(Note::Defined { limit: *self.name, owner: definition.owner.clone() });
            return;
        }
        let own = self.own.filter(|own| own.fingerprint == self.desired);
        let blocking = if own.is_some() { Vec::new() } else { self.blocking() };
        plan.notes.extend(blocking.iter().map(|owner| self.refusal(owner)));
        // Redis has just lost all claims. The config that held this limit claims it first.
        let waits = self.seen.version.is_empty() && self.config.refused.contains(self.name);
        if !blocking.is_empty() || waits {
            return;
        }
        if own.is_none() && self.is_outdated() {
            plan.notes.insert(Note::Outdated { limit: *self.name, owner: self.config.owner.clone() });
            return;
        }
        plan.publish.insert(*self.name);
        plan.notes.extend(self.contested());
        let loaded = own.map_or(0, |own| own.loaded).max(self.config.loaded);
        let claim = Claim { fingerprint: self.desired, loaded };
        let held = self.seen.claims.get(self.name).and_then(|claims| claims.get(&self.config.owner));
        if held != Some(&claim) {
            plan.change.claim.push((*self.name, self.config.owner.clone(), claim));
        }
        for owner in self.others.keys().filter(|owner| self.may_take_from(owner)) {
            plan.change.release.push((*self.name, owner.clone()));
            plan.notes.insert(Note::TakenOver { limit: *self.name, owner: owner.clone() });
        }
    }

    /// Whether a newer version of this config has claimed the limit, or a daemon with one wants other terms for it.
    fn is_outdated(&self) -> bool {
        let is_newer = |loaded: u64| loaded > self.config.loaded;
        let wants_other = |declared: &Declaration| {
            let limit = declared.limits.get(self.name);
            is_newer(declared.loaded) && limit.is_some_and(|limit| limit.fingerprint != self.desired)
        };
        let mut same = self.seen.daemons_of(&self.config.owner);
        self.own.is_some_and(|own| is_newer(own.loaded)) || same.any(|(_, declared)| wants_other(declared))
    }

    /// Configs that hold the limit with other terms, and may not lose it.
    fn blocking(&self) -> Vec<&Owner> {
        let differ = |(owner, claim): &(&Owner, &Claim)| self.desired_by(owner, claim) != self.desired;
        let differing = self.others.iter().filter(differ).map(|(owner, _)| owner);
        differing.filter(|owner| !self.may_take_from(owner)).collect()
    }

    /// The terms that another config wants now. Two that hold a limit together may both change it, one after the other.
    fn desired_by(&self, owner: &Owner, claim: &Claim) -> Fingerprint {
        let newest = self.seen.daemons_of(owner).max_by_key(|(_, declared)| declared.loaded);
        // A daemon whose terms are outdated does not speak for its config.
        let newest = newest.filter(|(_, declared)| declared.loaded >= claim.loaded);
        let limit = newest.and_then(|(_, declared)| declared.limits.get(self.name));
        limit.map_or(claim.fingerprint, |limit| limit.fingerprint)
    }

    /// Whether the claim of `owner` may end: no daemon of it is alive, and a person agreed or the limit is gone.
    fn may_take_from(&self, owner: &Owner) -> bool {
        let agreed = self.config.take_over.contains(self.name) || !self.seen.registered.contains(self.name);
        agreed && !self.seen.is_alive(owner)
    }

    fn refusal(&self, owner: &Owner) -> Note {
        let (limit, since) = (*self.name, self.seen.last_alive.get(owner).copied());
        let daemon = self.seen.daemons_of(owner).next().map(|(daemon, _)| daemon.to_owned());
        let owner = owner.clone();
        match daemon {
            Some(daemon) => Note::Conflict { limit, owner, daemon },
            None if self.seen.is_alive(&owner) => {
                Note::Conflict { limit, owner, daemon: "starting".to_owned() }
            }
            None => Note::Orphaned { limit, owner, since },
        }
    }

    /// Live daemons of other configs that want other terms for this limit.
    fn contested(&self) -> Vec<Note> {
        let differ = |(_, declared): &(&String, &Declaration)| {
            let limit = declared.limits.get(self.name);
            declared.owner != self.config.owner
                && limit.is_some_and(|limit| limit.fingerprint != self.desired)
        };
        let note = |(daemon, declared): (&String, &Declaration)| Note::Contested {
            limit: *self.name,
            owner: declared.owner.clone(),
            daemon: daemon.clone(),
        };
        self.seen.daemons.iter().filter(differ).map(note).collect()
    }
}

fn fingerprints(declared: &Declaration) -> BTreeMap<LimitName, Fingerprint> {
    declared.limits.iter().map(|(name, limit)| (*name, limit.fingerprint)).collect()
}
