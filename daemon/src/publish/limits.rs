//! One round of publishing: removes other limits, writes the records of the desired ones, tells workers.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use redis::{RedisError, RedisResult};
use tokio::sync::Semaphore;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Shards, Supply, Terms},
    namespace::InNamespace,
    publishing::{MAX_CONCURRENT, publish_shard, remove, sweep_shard, sweep_states},
    reply::PublishReply,
    scripts,
};

use super::{desired::DesiredLimit, freeze::FrozenShards, ownership::Plan};

/// The mode of a round of publishing.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions<'a> {
    /// Which limits are removed, and of which limits the trials are if they are not desired. `None` removes nothing.
    pub plan: Option<&'a Plan>,
    /// Frozen shards whose freeze all workers know of. Their changes are made; others are frozen first.
    pub known: &'a FrozenShards,
    /// Whether workers read all limits again even if nothing has changed.
    pub announce: bool,
}

/// The effect of a round of publishing.
#[derive(Debug, Default)]
pub struct PublishOutcome {
    /// Whether any record has changed.
    pub changed: bool,
    /// Shards that are frozen: their change waits until all workers know of it.
    pub frozen: FrozenShards,
}

/// One round of publishing: the state that all its limits share.
struct Publisher<'a> {
    connection: &'a Connection,
    registered: BTreeMap<LimitName, Shards>,
    known: &'a FrozenShards,
    permits: Semaphore,
}

/// Publishes the `desired` limits. Workers read all limits again if anything has changed or is frozen.
///
/// A crash at any point leaves a state that the next call repairs.
///
/// # Errors
/// Errors of Redis. A second call, with [`PublishOptions::announce`], does no harm.
pub async fn publish(
    connection: &Connection,
    desired: &[DesiredLimit],
    options: PublishOptions<'_>,
) -> RedisResult<PublishOutcome> {
    let registered = scripts::published_limits(&mut connection.clone()).await?;
    let mut outcome = PublishOutcome { changed: options.announce, ..PublishOutcome::default() };
    if let Some(plan) = options.plan {
        let names: BTreeSet<&LimitName> = desired.iter().map(|desired| &desired.limit.name).collect();
        let is_own =
            |name: &LimitName| plan.remove.contains(&name.live()) || plan.publish.contains(&name.live());
        for (name, shards) in registered.iter().filter(|(name, _)| is_own(name) && !names.contains(name)) {
            remove(connection, name, *shards).await?;
            outcome.changed = true;
        }
    }
    let permits = Semaphore::new(MAX_CONCURRENT);
    let publisher = Publisher { connection, registered, known: options.known, permits };
    let outcomes = try_join_all(desired.iter().map(|desired| publisher.publish_limit(desired))).await?;
    // Trial metrics belong to one config. A change by schedule is part of that config and keeps them.
    let reconfigured =
        desired.iter().zip(&outcomes).filter(|(desired, outcome)| outcome.changed && desired.since.is_none());
    try_join_all(reconfigured.map(|(desired, _)| publisher.clear_counts(&desired.limit.name))).await?;
    for each in outcomes {
        outcome.changed |= each.changed;
        outcome.frozen.extend(each.frozen);
    }
    // The generation rises last: a worker that reads it then reads every new record. A flushed Redis has none.
    let conn = &mut connection.clone();
    outcome.changed |= !outcome.frozen.is_empty() || scripts::generation(conn).await?.is_none();
    if outcome.changed {
        scripts::announce(conn).await?;
    }
    Ok(outcome)
}

/// Whether `error` says that a record exists but is not of this version, or is no record.
pub(crate) fn is_unreadable(error: &RedisError) -> bool {
    scripts::is_corruption(error)
}

// === impl Publisher ===

impl Publisher<'_> {
    /// Publishes one limit when a permit is free.
    async fn publish_limit(&self, desired: &DesiredLimit) -> RedisResult<PublishOutcome> {
        // The semaphore is never closed, so `acquire` never fails.
        let _permit = self.permits.acquire().await;
        let DesiredLimit { limit, since } = desired;
        let conn = &mut self.connection.clone();
        let mut old_shards = self.registered.get(&limit.name).map_or(0, |shards| shards.get());
        let mut old = match scripts::read_limit(conn, &limit.name).await {
            Err(error) if is_unreadable(&error) => None,
            read => read?.map(|published| published.limit),
        };
        let switches_keyed = old.as_ref().is_some_and(|old| old.keyed != limit.keyed);
        if let Some(shards) = self.registered.get(&limit.name).filter(|_| switches_keyed) {
            // A keyed and an unkeyed limit have no bucket in common.
            remove(self.connection, &limit.name, *shards).await?;
            (old_shards, old) = (0, None);
        }
        if old_shards < limit.shards.get() {
            scripts::register(conn, &limit.name, limit.shards).await?;
        }
        // Higher terms never apply to the past: they were not published then.
        let since = since.filter(|_| !old.as_ref().is_some_and(|old| raises(&old.terms, &limit.terms)));
        let mut outcome = PublishOutcome::default();
        for shard in 0..limit.shards.get() {
            let id = (limit.name, shard);
            let keys = ShardKeys::new(self.connection.namespace(), &limit.name, shard);
            let known = self.known.get(&id).copied();
            match publish_shard(self.connection, &keys, limit, since, known, None).await? {
                PublishReply::Announced(frozen) => drop(outcome.frozen.insert(id, frozen)),
                published => outcome.changed |= published != PublishReply::Unchanged,
            }
        }
        if outcome.changed {
            self.update_states(limit, old.as_ref()).await?;
        }
        // A frozen limit keeps its shards until the change.
        if outcome.frozen.is_empty() && old_shards > limit.shards.get() {
            self.remove_shards(limit, old_shards, old.as_ref()).await?;
            outcome.changed = true;
        }
        Ok(outcome)
    }

    /// Removes the states of the old algorithm, or adapts states of the same algorithm to the present terms.
    async fn update_states(&self, limit: &Limit, old: Option<&Limit>) -> RedisResult<()> {
        let Some(old) = old else { return Ok(()) };
        let conn = &mut self.connection.clone();
        for mut node in self.connection.each_node().await? {
            if old.algorithm != limit.algorithm {
                scripts::sweep_states(conn, &mut node, &limit.name, old.algorithm, 0).await?;
            } else if limit.algorithm.is_script_only() {
                scripts::touch_states(conn, &mut node, &limit.name, limit.algorithm).await?;
            }
        }
        Ok(())
    }

    /// Removes the shards beyond those of `limit`. They go after all others are published, so that no worker still
    /// takes from their buckets.
    async fn remove_shards(&self, limit: &Limit, old_shards: u16, old: Option<&Limit>) -> RedisResult<()> {
        let conn = &mut self.connection.clone();
        for shard in limit.shards.get()..old_shards {
            let keys = ShardKeys::new(self.connection.namespace(), &limit.name, shard);
            scripts::drop_record(conn, &keys).await?;
            sweep_shard(self.connection, &keys).await?;
        }
        sweep_states(self.connection, &limit.name, old, limit.shards.get()).await?;
        scripts::register(conn, &limit.name, limit.shards).await
    }

    /// Clears the trial metrics of a limit when a permit is free.
    async fn clear_counts(&self, name: &LimitName) -> RedisResult<()> {
        let _permit = self.permits.acquire().await;
        scripts::clear_counts(&mut self.connection.clone(), &name.live()).await
    }
}

/// Whether `new` terms give more than `old` ones in any way: a greater capacity, or a higher rate. Never for a quota,
/// which is filled at its own instants.
fn raises(old: &Terms, new: &Terms) -> bool {
    if !matches!(new.supply, Supply::Rate(_)) {
        return false;
    }
    let (old_n, old_p) = old.supply.lowest_terms();
    let (new_n, new_p) = new.supply.lowest_terms();
    let faster = u128::from(new_n) * u128::from(old_p) > u128::from(old_n) * u128::from(new_p);
    new.capacity > old.capacity || faster
}
