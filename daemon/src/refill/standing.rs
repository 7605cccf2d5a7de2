//! The standing of this daemon's config among all configs on the Redis: what it claims, and what it may publish.

use std::collections::BTreeSet;

use topup_wire::{
    claims::{Fingerprint, Owner},
    limit::LimitName,
    reply::Beat,
    scripts::ClaimChange,
};

use crate::{
    config::Config,
    publish::{LoadedConfig, Note, Plan, fingerprint},
};

/// Names of limits that one line of the log has at most.
const MOST_NAMES: usize = 20;

/// The config as loaded, and the last decision on its limits.
pub(super) struct Standing {
    config: LoadedConfig,
    /// The hash of its limits.
    hash: Fingerprint,
    /// Whether a config was loaded. Nothing is decided before: a daemon without a config drops no limit.
    is_loaded: bool,
    /// `None` before the first decision.
    plan: Option<Plan>,
    /// The live daemons and claims that the last decision knew, as a heartbeat tells them.
    known: Option<String>,
    /// The same now.
    heard: Option<String>,
}

// === impl Standing ===

impl Standing {
    /// The standing of a config before it is published. Limits in `take_over` may be taken over by the first decision.
    pub(super) fn new(daemon: String, owner: Owner, take_over: BTreeSet<LimitName>) -> Self {
        let config = LoadedConfig { daemon, owner, take_over, ..LoadedConfig::default() };
        Self { hash: config.fingerprint(), config, is_loaded: false, plan: None, known: None, heard: None }
    }

    /// Notes that the daemon has loaded `config`.
    pub(super) fn load(&mut self, config: &Config) {
        let limits = config.limits.iter().map(|(name, limit)| (*name, fingerprint(limit, config.tick)));
        (self.config.limits, self.config.loaded) = (limits.collect(), 0);
        (self.hash, self.is_loaded) = (self.config.fingerprint(), true);
    }

    /// The config, for a decision that begins at `now`, in µs of Redis `TIME`.
    pub(super) fn begin(&mut self, now: u64) -> LoadedConfig {
        if self.config.loaded == 0 {
            self.config.loaded = now;
        }
        self.known = self.heard.clone();
        self.config.clone()
    }

    /// The name and the hash of the config.
    pub(super) fn identity(&self) -> (Owner, Fingerprint) {
        (self.config.owner.clone(), self.hash)
    }

    /// Learns of live daemons and claims.
    pub(super) fn heard(&mut self, beat: &Beat) {
        // The end of a definition changes the generation, and no claim.
        let awaits_end = self.notes().any(|note| matches!(note, Note::Defined { .. }));
        self.heard = Some(match (awaits_end, beat.generation) {
            (true, Some(generation)) => format!("{} {generation}", beat.roster),
            _ => beat.roster.clone(),
        });
        if beat.declared != Some(self.hash) {
            self.known = None;
        }
    }

    /// Whether claims or live daemons have changed since the last decision began.
    pub(super) fn is_stale(&self) -> bool {
        self.is_loaded && self.heard.is_some() && self.known != self.heard
    }

    /// Plans another decision, after one has failed.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    /// Whether this daemon publishes the limit `name`, or the limit that `name` is tried beside.
    pub(super) fn publishes(&self, name: &LimitName) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.publish.contains(&name.live()))
    }

    /// Notes on the config's limits, as of the last decision.
    pub(super) fn notes(&self) -> impl Iterator<Item = &Note> {
        self.plan.iter().flat_map(|plan| &plan.notes)
    }

    /// Logs what a decision has changed.
    pub(super) fn decided(&mut self, plan: Plan) {
        if self.plan.is_none() && !plan.foreign.is_empty() {
            let mut names: Vec<_> = plan.foreign.iter().take(MOST_NAMES).map(LimitName::as_str).collect();
            names.extend((plan.foreign.len() > MOST_NAMES).then_some("..."));
            tracing::info!(
                "published limits that are not in this config stay as they are: {}",
                names.join(", ")
            );
        }
        let before: BTreeSet<&Note> = self.notes().collect();
        for note in plan.notes.iter().filter(|note| !before.contains(note)) {
            if note.is_refusal() { tracing::error!("{note}") } else { tracing::warn!("{note}") }
        }
        for note in before.into_iter().filter(|note| note.is_problem() && !plan.notes.contains(note)) {
            tracing::info!("settled: {note}");
        }
        if plan.change != ClaimChange::default() {
            // The next heartbeat leads to a review: others may have changed the claims since.
            (self.known, self.heard) = (None, None);
        }
        self.config.take_over.clear();
        self.config.refused = plan.refused(&self.config);
        self.plan = Some(plan);
    }
}
