//! Making Redis say what the config says.

mod ahead;
mod change;
mod remove;
#[cfg(test)]
mod tests;
mod touch;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::sync::Semaphore;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Shards, Supply, Terms},
    reply::PublishReply,
    scripts,
};

pub use ahead::freeze_ahead;
pub use change::{Change, changes};
use remove::{remove, sweep_shard, sweep_states};
pub use touch::touch_at_rest;

/// A limit to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is to say.
    pub limit: Limit,
    /// The instant of the schedule from which it is to say so, in µs of Redis `TIME`; `None`: from now.
    pub at: Option<u64>,
}

/// Shards of limits that are frozen for a change, with the instant at which they were at the latest, in µs of the Redis
/// `TIME` each lives by.
pub type Announced = BTreeMap<(LimitName, u16), u64>;

/// Buckets handled by one script or command: about a millisecond of Redis, so that takes pass between.
pub(crate) const SLICE: usize = 250;

/// Limits that are published, or read, at once. More requests than the connection's queue holds (50) would shut it to
/// everybody else, the heartbeat first, whenever nobody happens to poll them.
pub(crate) const ABREAST: usize = 16;

/// What came of publishing.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Redis says something else than before.
    pub changed: bool,
    /// What waits for workers to know of it.
    pub announced: Announced,
}

/// Publishes `wanted`, and with `alone` removes whatever else is published. Changes of which workers were `told` are made;
/// others of that kind are announced.
///
/// Workers read everything anew when something changed or was announced, and with `tell`.
///
/// A crash at any point leaves something that the next call puts right.
///
/// # Errors
/// Those of Redis. May be called again without harm, with `tell`.
pub async fn publish(
    connection: &Connection,
    wanted: &[Wanted],
    alone: bool,
    told: &Announced,
    tell: bool,
) -> RedisResult<Outcome> {
    let registered = scripts::published_limits(&mut connection.clone()).await?;
    let mut outcome = Outcome { changed: tell, ..Outcome::default() };
    if alone {
        let names: BTreeSet<&LimitName> = wanted.iter().map(|wanted| &wanted.limit.name).collect();
        for (name, shards) in &registered {
            if !names.contains(name) {
                remove(connection, name, *shards).await?;
                outcome.changed = true;
            }
        }
    }
    let places = Semaphore::new(ABREAST);
    let each = wanted.iter().map(|wanted| publish_limit(connection, wanted, &registered, told, &places));
    let each = try_join_all(each).await?;
    // What was counted under another config says nothing of this one. A schedule is part of one.
    let anew = wanted.iter().zip(&each).filter(|(wanted, each)| each.changed && wanted.at.is_none());
    try_join_all(anew.map(|(wanted, _)| clear_counts(connection, &wanted.limit.name, &places))).await?;
    for each in each {
        outcome.changed |= each.changed;
        outcome.announced.extend(each.announced);
    }
    // The last word: who reads the new generation reads everything new. A flushed Redis counts from the beginning.
    let conn = &mut connection.clone();
    outcome.changed |= !outcome.announced.is_empty() || scripts::generation(conn).await?.is_none();
    if outcome.changed {
        scripts::announce(conn).await?;
    }
    Ok(outcome)
}

async fn clear_counts(connection: &Connection, name: &LimitName, places: &Semaphore) -> RedisResult<()> {
    // Never closed, so never refused.
    let _place = places.acquire().await;
    scripts::clear_counts(&mut connection.clone(), &name.live()).await
}

/// Publishes one limit, when it finds a place.
async fn publish_limit(
    connection: &Connection,
    wanted: &Wanted,
    registered: &BTreeMap<LimitName, Shards>,
    told: &Announced,
    places: &Semaphore,
) -> RedisResult<Outcome> {
    // Never closed, so never refused.
    let _place = places.acquire().await;
    let Wanted { limit, at } = wanted;
    let conn = &mut connection.clone();
    let mut had = registered.get(&limit.name).map_or(0, |shards| shards.get());
    let mut before = match scripts::read_limit(conn, &limit.name).await {
        Err(error) if is_unreadable(&error) => None,
        read => read?.map(|published| published.limit),
    };
    let other = before.as_ref().is_some_and(|before| before.keyed != limit.keyed);
    if let Some(shards) = registered.get(&limit.name).filter(|_| other) {
        // Buckets of keys are none of a limit that has one for all, nor the other way round.
        remove(connection, &limit.name, *shards).await?;
        (had, before) = (0, None);
    }
    if had < limit.shards.get() {
        scripts::register(conn, &limit.name, limit.shards).await?;
    }
    // Nobody is given for the past what was not in force then.
    let at = at.filter(|_| !before.as_ref().is_some_and(|before| raises(&before.terms, &limit.terms)));
    let mut outcome = Outcome::default();
    for shard in 0..limit.shards.get() {
        let place = (limit.name, shard);
        let keys = ShardKeys::new(&limit.name, shard);
        match publish_shard(connection, &keys, limit, at, told.get(&place).copied()).await? {
            PublishReply::Announced(frozen) => drop(outcome.announced.insert(place, frozen)),
            published => outcome.changed |= published != PublishReply::Unchanged,
        }
    }
    if outcome.changed {
        tidy(connection, limit, before.as_ref()).await?;
    }
    if !outcome.announced.is_empty() {
        // Until it changes, it has the shards it had.
        return Ok(outcome);
    }
    // Shards beyond those now wanted go last, so that no bucket of theirs is still taken from.
    for shard in limit.shards.get()..had {
        let keys = ShardKeys::new(&limit.name, shard);
        scripts::drop_record(conn, &keys).await?;
        sweep_shard(connection, &keys).await?;
        outcome.changed = true;
    }
    if had > limit.shards.get() {
        sweep_states(connection, &limit.name, before.as_ref(), limit.shards.get()).await?;
        scripts::register(conn, &limit.name, limit.shards).await?;
    }
    Ok(outcome)
}

/// Whether `new` terms give more than `old` ones in any way: a greater capacity, or a higher rate. A quota is filled at
/// its instant, whoever is there to see it.
fn raises(old: &Terms, new: &Terms) -> bool {
    if !matches!(new.supply, Supply::Rate(_)) {
        return false;
    }
    let (old_n, old_p) = old.supply.lowest_terms();
    let (new_n, new_p) = new.supply.lowest_terms();
    let faster = u128::from(new_n) * u128::from(old_p) > u128::from(old_n) * u128::from(new_p);
    new.capacity > old.capacity || faster
}

/// Whether `error` says that a record is there and is not of this version.
pub(crate) fn is_unreadable(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse
}

/// Publishes one shard, working off first what an earlier change has left.
async fn publish_shard(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
    told: Option<u64>,
) -> RedisResult<PublishReply> {
    let conn = &mut connection.clone();
    loop {
        match scripts::publish(conn, keys, limit, at, told).await? {
            published @ (PublishReply::Unchanged | PublishReply::Announced(_)) => return Ok(published),
            published @ (PublishReply::Changed | PublishReply::Created) => {
                if limit.algorithm.is_script_only() {
                    sweep_shard(connection, keys).await?;
                }
                return Ok(published);
            }
            PublishReply::Busy => {
                let carried = carry_all(connection, keys).await?;
                // Nothing to carry: what is in the way belongs to another algorithm, or to a limit half removed.
                if carried == 0 {
                    sweep_shard(connection, keys).await?;
                }
            }
        }
    }
}

/// Carries every bucket of a shard over its last change: how many there were.
pub(crate) async fn carry_all(connection: &Connection, keys: &ShardKeys) -> RedisResult<u64> {
    let conn = &mut connection.clone();
    let mut carried = 0;
    if !scripts::is_migrating(conn, keys).await? {
        return Ok(carried);
    }
    loop {
        let members = scripts::list_previous(conn, keys, SLICE).await?;
        // Also without any: workers may have carried the last of them, and the record does not say so yet.
        let slice = scripts::migrate(conn, keys, &members).await?;
        carried += slice.migrated;
        if slice.migrated == 0 || slice.left == 0 {
            return Ok(carried);
        }
    }
}

/// Removes the states of the algorithm before, or adapts them to the present terms.
async fn tidy(connection: &Connection, limit: &Limit, before: Option<&Limit>) -> RedisResult<()> {
    let Some(before) = before else { return Ok(()) };
    let conn = &mut connection.clone();
    for mut node in connection.each_node().await? {
        if before.algorithm != limit.algorithm {
            scripts::sweep_states(conn, &mut node, &limit.name, before.algorithm, 0).await?;
        } else if limit.algorithm.is_script_only() {
            scripts::touch_states(conn, &mut node, &limit.name, limit.algorithm).await?;
        }
    }
    Ok(())
}
