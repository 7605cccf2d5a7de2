//! The claims to one limit of a config, and the decision on them.

use std::collections::BTreeMap;

use topup_wire::{
    claims::{Claim, Declaration, Fingerprint, Owner, Ownership},
    limit::LimitName,
};

use super::plan::{LoadedConfig, Plan};
use crate::publish::note::Note;

/// The claims to one limit of a config.
pub(super) struct Contest<'a> {
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

// === impl Contest ===

impl<'a> Contest<'a> {
    pub(super) fn new(
        config: &'a LoadedConfig,
        seen: &'a Ownership,
        name: &'a LimitName,
        desired: Fingerprint,
    ) -> Self {
        let mut others = seen.claims_to(name);
        let own = others.remove(&config.owner);
        Self { config, seen, name, desired, own, others }
    }

    pub(super) fn decide(&self, plan: &mut Plan) {
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
