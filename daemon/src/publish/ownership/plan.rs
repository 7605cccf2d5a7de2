//! The config that claims limits, and what the claims let it do.

use std::collections::{BTreeMap, BTreeSet};

use topup_wire::{
    claims::{Fingerprint, Owner},
    limit::LimitName,
    scripts::ClaimChange,
};

use crate::publish::note::Note;

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
