//! The effect that publishing a config would have, found without a write.
//!
//! The decision on claims is [`decide`], and the limits are [`desired_limits`]: those that a reload uses.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::{RedisError, RedisResult};
use topup_wire::{
    claims::{Owner, Ownership},
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName},
    namespace::InNamespace,
    scripts,
};

use super::{
    MAX_CONCURRENT,
    change::fingerprint,
    desired::desired_limits,
    limits::is_unreadable,
    note::Note,
    ownership::{LoadedConfig, decide},
    parts_and_sources::{PartChange, SourceChange, part_changes, source_change},
};
use crate::config::Config;

/// The effect of a reload on one limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// It is published for the first time.
    Added(Box<Limit>),
    /// It is removed with all its buckets.
    Removed(Option<Box<Limit>>),
    /// The config gives it up. It stays, since another config has it.
    Released,
    /// Another config has it already, with the same terms. Both hold it from then on.
    Shared,
    /// Its record changes.
    Altered {
        /// The limit as it is published.
        from: Box<Limit>,
        /// The limit as it will be.
        to: Box<Limit>,
    },
    /// Its record cannot be read, and is written anew.
    Repaired,
    /// It is written in another way, and nothing that is published changes now.
    Rewritten,
}

/// The effects of a reload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Each limit that changes. Trials have names of their own, see [`LimitName::live`].
    pub effects: BTreeMap<LimitName, Effect>,
    /// Limits of the config that stay as they are.
    pub unchanged: usize,
    /// Limits that the reload refuses, take-overs, and conflicts.
    pub notes: BTreeSet<Note>,
    /// Buckets that count now, of token buckets that change.
    pub active: BTreeMap<LimitName, u64>,
    /// Sources of assignments that change.
    pub sources: BTreeMap<LimitName, SourceChange>,
}

/// The effects that a reload of all daemons of `owner` with `config` would have. Writes nothing.
///
/// # Errors
/// Errors of Redis.
pub async fn preview(
    connection: &Connection,
    seen: &Ownership,
    owner: &Owner,
    config: &Config,
) -> RedisResult<Preview> {
    let registered = scripts::published_limits(&mut connection.clone()).await?;
    let reads = registered.keys().map(|name| async move {
        match scripts::read_limit(&mut connection.clone(), name).await {
            Err(error) if is_unreadable(&error) => Ok::<_, RedisError>((*name, None)),
            read => Ok((*name, read?.map(|published| published.limit))),
        }
    });
    let published = stream::iter(reads).buffer_unordered(MAX_CONCURRENT).try_collect().await?;
    let mut preview = compare(seen, owner, config, &published);
    for (name, effect) in &preview.effects {
        let (Effect::Removed(Some(limit)) | Effect::Altered { from: limit, .. }) = effect else { continue };
        if limit.algorithm == Algorithm::TokenBucket {
            let mut active = 0;
            for shard in 0..limit.shards.get() {
                let keys = ShardKeys::new(connection.namespace(), name, shard);
                active += scripts::count_active(&mut connection.clone(), &keys).await?;
            }
            preview.active.insert(*name, active);
        }
    }
    let told = scripts::source_statuses(&mut connection.clone()).await?;
    let stays = |effect: &Effect| !matches!(effect, Effect::Removed(_) | Effect::Released);
    let changed = preview.effects.iter().filter(|(_, effect)| stays(effect));
    preview.sources =
        changed.filter_map(|(name, _)| Some((*name, source_change(name, config, &told)?))).collect();
    Ok(preview)
}

/// The effects on the `published` limits; those that cannot be read are `None`.
pub(super) fn compare(
    seen: &Ownership,
    owner: &Owner,
    config: &Config,
    published: &BTreeMap<LimitName, Option<Limit>>,
) -> Preview {
    let loaded = LoadedConfig {
        daemon: String::new(),
        owner: owner.clone(),
        loaded: seen.now,
        limits: config.limits.iter().map(|(name, limit)| (*name, fingerprint(limit, config.tick))).collect(),
        ..LoadedConfig::default()
    };
    // All daemons of the config are to reload: what they have now does not count.
    let mut others = seen.clone();
    others.daemons.retain(|_, declared| declared.owner != *owner);
    let plan = decide(&loaded, &others);
    let mut preview = Preview { notes: plan.notes.clone(), ..Preview::default() };
    let is_own = |name: &LimitName| plan.publish.contains(&name.live());
    let mut unchanged: BTreeSet<LimitName> = plan.publish.clone();
    let desired = desired_limits(config, seen.now, |_| true).into_iter().map(|desired| desired.limit);
    let desired: BTreeMap<LimitName, Limit> =
        desired.filter(|limit| is_own(&limit.name)).map(|limit| (limit.name, limit)).collect();
    for (name, limit) in &desired {
        let effect = match published.get(name) {
            None => Effect::Added(limit.clone().into()),
            Some(None) => Effect::Repaired,
            Some(Some(from)) if from != limit => {
                Effect::Altered { from: from.clone().into(), to: limit.clone().into() }
            }
            Some(Some(_)) => continue,
        };
        preview.effects.insert(*name, effect);
        unchanged.remove(&name.live());
    }
    for (name, limit) in published {
        let is_dropped_trial = is_own(name) && !desired.contains_key(name);
        if plan.remove.contains(&name.live()) || is_dropped_trial {
            preview.effects.insert(*name, Effect::Removed(limit.clone().map(Box::new)));
            unchanged.remove(&name.live());
        }
    }
    for (name, _) in plan.change.release.iter().filter(|(_, holder)| holder == owner) {
        preview.effects.insert(*name, Effect::Released);
    }
    for (name, ..) in &plan.change.claim {
        let own = seen.claims.get(name).and_then(|claims| claims.get(owner));
        let is_same = own.is_some_and(|own| own.fingerprint == loaded.limits[name]);
        if !is_same && unchanged.remove(name) {
            let effect = if own.is_some() { Effect::Rewritten } else { Effect::Shared };
            preview.effects.insert(*name, effect);
        }
    }
    preview.unchanged = unchanged.len();
    preview
}

// === impl Effect ===

impl Effect {
    /// The parts of fair shares whose share changes.
    pub fn part_changes(&self) -> Vec<PartChange> {
        match self {
            Self::Altered { from, to } => part_changes(from, to),
            _ => Vec::new(),
        }
    }
}

// === impl Preview ===

impl Preview {
    /// Whether the reload would do nothing, and would refuse nothing.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty() && !self.notes.iter().any(Note::is_refusal)
    }
}
