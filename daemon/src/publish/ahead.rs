//! Announcing changes ahead of their instant.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{LimitName, Terms},
    scripts,
};

use super::{ABREAST, Announced, Wanted};

/// Announces the changes that `wanted` comes to where other terms are published: [`publish`](super::publish) makes them,
/// at their instant.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn freeze_ahead(connection: &Connection, wanted: &[Wanted]) -> RedisResult<Announced> {
    let mut each = Vec::new();
    for limit in wanted.iter().map(|wanted| &wanted.limit) {
        for shard in 0..limit.shards.get() {
            each.push(freeze(connection.clone(), limit.name, shard, limit.terms));
        }
    }
    let each: Vec<_> = stream::iter(each).buffer_unordered(ABREAST).try_collect().await?;
    let announced: Announced = each.into_iter().flatten().collect();
    if !announced.is_empty() {
        scripts::announce(&mut connection.clone()).await?;
    }
    Ok(announced)
}

async fn freeze(
    mut connection: Connection,
    name: LimitName,
    shard: u16,
    terms: Terms,
) -> RedisResult<Option<((LimitName, u16), u64)>> {
    let frozen = scripts::freeze(&mut connection, &ShardKeys::new(&name, shard), &terms).await?;
    Ok(frozen.map(|at| ((name, shard), at)))
}
