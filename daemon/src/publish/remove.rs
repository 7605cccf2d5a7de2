//! Removing what left the config.

use redis::{RedisResult, aio::ConnectionLike};
use topup_wire::{
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName, Shards},
    scripts,
};

use super::SLICE;

/// Removes every key of the limit `name`.
pub(super) async fn remove<C>(connection: &C, name: &LimitName, shards: Shards) -> RedisResult<()>
where
    C: ConnectionLike + Clone,
{
    let conn = &mut connection.clone();
    // A record this version cannot read, or none: whatever kind of limit it was, leave nothing.
    let limit = scripts::read_limit(conn, name).await.ok().flatten();
    let may_be_lazy = limit.is_none_or(|limit| limit.algorithm == Algorithm::LazyTokenBucket);
    // Of the first shard last: by its record a removal cut short is still known for what it is.
    let keys = || (0..shards.get()).rev().map(|shard| ShardKeys::new(name, shard));
    // First the records: from then on nothing is added.
    for keys in keys() {
        scripts::drop_record(conn, &keys).await?;
    }
    for keys in keys() {
        sweep_shard(connection, &keys).await?;
        if may_be_lazy {
            scripts::sweep_lazy(conn, &keys).await?;
        }
    }
    // Last the entry by which a removal cut short is found again.
    scripts::forget(conn, name).await
}

/// Removes every counter of a shard whose record no longer allows any.
pub(super) async fn sweep_shard<C>(connection: &C, keys: &ShardKeys) -> RedisResult<()>
where
    C: ConnectionLike + Clone,
{
    let conn = &mut connection.clone();
    while scripts::sweep_counters(conn, keys, SLICE).await? > 0 {}
    Ok(())
}
