//! Removes limits that have left the config, and buckets that no record allows any more.

use redis::RedisResult;

use super::SLICE;
use crate::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, Shards},
    namespace::InNamespace,
    scripts,
};

/// Removes every key of the limit `name`.
///
/// # Errors
/// Errors of Redis. A second call removes what is left.
pub async fn remove(connection: &Connection, name: &LimitName, shards: Shards) -> RedisResult<()> {
    let conn = &mut connection.clone();
    // If the record is absent or cannot be read, the states of all algorithms are removed.
    let published = scripts::read_limit(conn, name).await.ok().flatten().map(|published| published.limit);
    // Shard 0 comes last: its record tells a repeated removal which kind of limit it was.
    let all_keys =
        || (0..shards.get()).rev().map(|shard| ShardKeys::new(connection.namespace(), name, shard));
    // Records go first: without them, no script adds buckets.
    for keys in all_keys() {
        scripts::drop_record(conn, &keys).await?;
    }
    for keys in all_keys() {
        sweep_shard(connection, &keys).await?;
    }
    sweep_states(connection, name, published.as_ref(), 0).await?;
    scripts::clear_counts(conn, name).await?;
    scripts::resume_all(conn, name).await?;
    scripts::forget_assigned(conn, name).await?;
    forget_source(conn, name).await?;
    // The registry entry goes last: a repeated removal finds the limit by it.
    scripts::forget(conn, name).await
}

/// Removes the assignments that the source of the limit `name` has brought, and what is told of it.
async fn forget_source(conn: &mut Connection, name: &LimitName) -> RedisResult<()> {
    // Plans and trials have none.
    if name.live() == *name {
        scripts::forget_assigned(conn, &name.source()).await?;
        scripts::forget_source(conn, name).await?;
    }
    Ok(())
}

/// Removes the states of a scripted limit in the shards from `first` on. If `published` is unknown, removes the states
/// of all algorithms.
///
/// # Errors
/// Errors of Redis. A second call removes what is left.
pub async fn sweep_states(
    connection: &Connection,
    name: &LimitName,
    published: Option<&Limit>,
    first: u16,
) -> RedisResult<()> {
    let may_be = |algorithm: &Algorithm| published.is_none_or(|limit| limit.algorithm == *algorithm);
    let conn = &mut connection.clone();
    for algorithm in Algorithm::EVERY.into_iter().filter(may_be) {
        for mut node in connection.each_node().await? {
            scripts::sweep_states(conn, &mut node, name, algorithm, first).await?;
        }
    }
    Ok(())
}

/// Removes every counter of a shard whose record allows none any more.
///
/// # Errors
/// Errors of Redis. A second call removes what is left.
pub async fn sweep_shard(connection: &Connection, keys: &ShardKeys) -> RedisResult<()> {
    let conn = &mut connection.clone();
    while scripts::sweep_counters(conn, keys, SLICE).await? > 0 {}
    Ok(())
}
