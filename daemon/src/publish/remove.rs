//! Removing what left the config.

use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, Shards},
    scripts,
};

use super::SLICE;

/// Removes every key of the limit `name`.
pub(super) async fn remove(connection: &Connection, name: &LimitName, shards: Shards) -> RedisResult<()> {
    let conn = &mut connection.clone();
    // A record this version cannot read, or none: whatever kind of limit it was, leave nothing.
    let limit = scripts::read_limit(conn, name).await.ok().flatten().map(|published| published.limit);
    // Of the first shard last: by its record a removal cut short is still known for what it is.
    let keys = || (0..shards.get()).rev().map(|shard| ShardKeys::new(name, shard));
    // First the records: from then on nothing is added.
    for keys in keys() {
        scripts::drop_record(conn, &keys).await?;
    }
    for keys in keys() {
        sweep_shard(connection, &keys).await?;
    }
    sweep_states(connection, name, limit.as_ref(), 0).await?;
    scripts::clear_counts(conn, name).await?;
    // Last the entry by which a removal cut short is found again.
    scripts::forget(conn, name).await
}

/// Removes the states of a limit, of the shards from `first` on; of any algorithm, when it is not known as what it was
/// `published`.
pub(super) async fn sweep_states(
    connection: &Connection,
    name: &LimitName,
    published: Option<&Limit>,
    first: u16,
) -> RedisResult<()> {
    let may_be = |algorithm: &Algorithm| published.is_none_or(|limit| limit.algorithm == *algorithm);
    let conn = &mut connection.clone();
    for algorithm in Algorithm::ALL.into_iter().filter(may_be) {
        for mut node in connection.each_node().await? {
            scripts::sweep_states(conn, &mut node, name, algorithm, first).await?;
        }
    }
    Ok(())
}

/// Removes every counter of a shard whose record no longer allows any.
pub(super) async fn sweep_shard(connection: &Connection, keys: &ShardKeys) -> RedisResult<()> {
    let conn = &mut connection.clone();
    while scripts::sweep_counters(conn, keys, SLICE).await? > 0 {}
    Ok(())
}
