//! Making Redis say what the config says.

mod change;
mod remove;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::sync::Semaphore;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Shards},
    reply::Published,
    scripts,
};

pub use change::{Change, changes};
use remove::{remove, sweep_shard, sweep_states};

/// A limit to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is to say.
    pub limit: Limit,
    /// The instant of the schedule from which it is to say so, in µs of Redis `TIME`; `None`: from now.
    pub at: Option<u64>,
}

/// Buckets handled by one script or command: about a millisecond of Redis, so that takes pass between.
pub(crate) const SLICE: usize = 250;

/// Limits that are published, or read, at once. More requests than the connection's queue holds (50) would shut it to
/// everybody else, the heartbeat first, whenever nobody happens to poll them.
pub(crate) const ABREAST: usize = 16;

/// Publishes `wanted`, and with `alone` removes whatever else is published: whether anything changed.
///
/// A crash at any point leaves something that the next call puts right.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn publish(connection: &Connection, wanted: &[Wanted], alone: bool) -> RedisResult<bool> {
    let registered = scripts::published_limits(&mut connection.clone()).await?;
    let mut changed = false;
    if alone {
        let names: BTreeSet<&LimitName> = wanted.iter().map(|wanted| &wanted.limit.name).collect();
        for (name, shards) in &registered {
            if !names.contains(name) {
                remove(connection, name, *shards).await?;
                changed = true;
            }
        }
    }
    let places = Semaphore::new(ABREAST);
    let each = wanted.iter().map(|wanted| publish_limit(connection, wanted, &registered, &places));
    let each = try_join_all(each).await?;
    changed |= each.contains(&true);
    // What was counted under another config says nothing of this one. A schedule is part of one.
    let anew = wanted.iter().zip(each).filter(|(wanted, changed)| *changed && wanted.at.is_none());
    try_join_all(anew.map(|(wanted, _)| clear_counts(connection, &wanted.limit.name, &places))).await?;
    // The last word: who reads the new generation reads everything new. A flushed Redis counts from the beginning.
    if changed || scripts::generation(&mut connection.clone()).await?.is_none() {
        scripts::announce(&mut connection.clone()).await?;
        changed = true;
    }
    Ok(changed)
}

async fn clear_counts(connection: &Connection, name: &LimitName, places: &Semaphore) -> RedisResult<()> {
    // Never closed, so never refused.
    let _place = places.acquire().await;
    scripts::clear_counts(&mut connection.clone(), &name.tried_beside()).await
}

/// Publishes one limit, when it finds a place: whether anything changed.
async fn publish_limit(
    connection: &Connection,
    wanted: &Wanted,
    registered: &BTreeMap<LimitName, Shards>,
    places: &Semaphore,
) -> RedisResult<bool> {
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
    let mut changed = false;
    for shard in 0..limit.shards.get() {
        changed |= publish_shard(connection, &ShardKeys::new(&limit.name, shard), limit, *at).await?;
    }
    if changed {
        tidy(connection, limit, before.as_ref()).await?;
    }
    // Shards beyond those now wanted go last, so that no bucket of theirs is still taken from.
    for shard in limit.shards.get()..had {
        let keys = ShardKeys::new(&limit.name, shard);
        scripts::drop_record(conn, &keys).await?;
        sweep_shard(connection, &keys).await?;
        changed = true;
    }
    if had > limit.shards.get() {
        sweep_states(connection, &limit.name, before.as_ref(), limit.shards.get()).await?;
        scripts::register(conn, &limit.name, limit.shards).await?;
    }
    Ok(changed)
}

/// Whether `error` says that a record is there and is not of this version.
pub(crate) fn is_unreadable(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse
}

/// Publishes one shard, working off first what an earlier change has left: whether it changed.
async fn publish_shard(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
) -> RedisResult<bool> {
    let conn = &mut connection.clone();
    loop {
        match scripts::publish(conn, keys, limit, at).await? {
            Published::Unchanged => return Ok(false),
            Published::Changed | Published::Created => {
                if limit.algorithm.is_scripted() {
                    sweep_shard(connection, keys).await?;
                }
                return Ok(true);
            }
            Published::Busy => {
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
    if !scripts::is_carrying(conn, keys).await? {
        return Ok(carried);
    }
    loop {
        let members = scripts::list_former(conn, keys, SLICE).await?;
        // Also without any: workers may have carried the last of them, and the record does not say so yet.
        let slice = scripts::carry(conn, keys, &members).await?;
        carried += slice.carried;
        if slice.carried == 0 || slice.left == 0 {
            return Ok(carried);
        }
    }
}

/// Removes the states of the algorithm before, or adapts them to the present terms.
async fn tidy(connection: &Connection, limit: &Limit, before: Option<&Limit>) -> RedisResult<()> {
    let Some(before) = before.filter(|before| before.algorithm.is_scripted()) else { return Ok(()) };
    let conn = &mut connection.clone();
    for mut node in connection.each_node().await? {
        if before.algorithm == limit.algorithm {
            scripts::touch_states(conn, &mut node, &limit.name, limit.algorithm).await?;
        } else {
            scripts::sweep_states(conn, &mut node, &limit.name, before.algorithm, 0).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use redis::Cmd;
    use tokio::time::timeout;
    use topup_embedded::RedisServer;
    use topup_wire::connection::connect_lazily;

    use super::*;
    use crate::{config::Config, wanted::wanted};

    fn config(limits: usize) -> Config {
        let limit = |name| format!("[limit.l{name}]\nkeyed = true\ncapacity = 1\nrate = \"1/s\"\n");
        Config::parse(&(0..limits).map(limit).collect::<String>(), "config.toml").unwrap()
    }

    #[tokio::test]
    async fn publishing_many_limits_keeps_nobody_else_waiting() {
        let redis = RedisServer::builder().start().unwrap();
        let connection = connect_lazily(redis.url()).unwrap();
        let limits = wanted(&config(500), 1, |_| true);
        let mut publishing = pin!(publish(&connection, &limits, true));
        let mut others = connection.clone();
        // Polled a little, then left alone while something else is asked: as the daemon's loop does.
        for _ in 0..10 {
            let done = timeout(Duration::from_millis(1), publishing.as_mut()).await;
            assert!(done.is_err(), "too few limits to be seen at it");
            let ping = Cmd::ping();
            let asked = ping.query_async::<()>(&mut others);
            timeout(Duration::from_secs(5), asked).await.expect("nobody else gets through").unwrap();
        }
        publishing.await.unwrap();
    }
}
