//! Freezes shards ahead of a scheduled change, and tells workers.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{LimitName, Terms},
    namespace::InNamespace,
    scripts,
};

use super::{MAX_CONCURRENT, desired::DesiredLimit};

/// A limit, and the number of one of its shards.
pub type ShardId = (LimitName, u16);

/// Shards that are frozen for a change. The value is the latest instant at which the freeze may have begun, in µs of
/// `TIME` of the Redis node that holds the shard.
pub type FrozenShards = BTreeMap<ShardId, u64>;

/// Freezes the shards whose published terms differ from `desired`, and tells workers. [`publish`](super::publish) makes
/// the changes later, at their instant.
///
/// # Errors
/// Errors of Redis. A second call does no harm.
pub async fn freeze_ahead(connection: &Connection, desired: &[DesiredLimit]) -> RedisResult<FrozenShards> {
    let mut freezing = Vec::new();
    for limit in desired.iter().map(|desired| &desired.limit) {
        for shard in 0..limit.shards.get() {
            freezing.push(freeze(connection.clone(), (limit.name, shard), limit.terms));
        }
    }
    let shards: Vec<_> = stream::iter(freezing).buffer_unordered(MAX_CONCURRENT).try_collect().await?;
    let frozen: FrozenShards = shards.into_iter().flatten().collect();
    if !frozen.is_empty() {
        scripts::announce(&mut connection.clone()).await?;
    }
    Ok(frozen)
}

async fn freeze(
    mut connection: Connection,
    shard: ShardId,
    terms: Terms,
) -> RedisResult<Option<(ShardId, u64)>> {
    let keys = ShardKeys::new(connection.namespace(), &shard.0, shard.1);
    let frozen = scripts::freeze(&mut connection, &keys, &terms).await?;
    Ok(frozen.map(|at| (shard, at)))
}
