//! Which limits are published, and that something changed.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use crate::{
    keyspace::{GENERATION, LIMITS},
    limit::{LimitName, Shards},
};

static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("announce.lua")));

/// The published limits and the most shards each has had; entries this version cannot read are left out.
///
/// # Errors
/// Those of Redis.
pub async fn published_limits(
    connection: &mut impl ConnectionLike,
) -> RedisResult<BTreeMap<LimitName, Shards>> {
    let entries: BTreeMap<String, u64> = Cmd::hgetall(LIMITS).query_async(connection).await?;
    Ok(entries
        .into_iter()
        .filter_map(|(name, shards)| Some((LimitName::published(&name).ok()?, Shards::new(shards).ok()?)))
        .collect())
}

/// Notes that `name` has keys in `shards` shards. Done before the first of them is written, so that whoever finds a
/// half-made limit knows what to remove.
///
/// # Errors
/// Those of Redis.
pub async fn register(
    connection: &mut impl ConnectionLike,
    name: &LimitName,
    shards: Shards,
) -> RedisResult<()> {
    Cmd::hset(LIMITS, name.as_str(), shards.get()).query_async(connection).await
}

/// Notes that `name` has no keys left.
///
/// # Errors
/// Those of Redis.
pub async fn forget(connection: &mut impl ConnectionLike, name: &LimitName) -> RedisResult<()> {
    Cmd::hdel(LIMITS, name.as_str()).query_async(connection).await
}

/// Tells workers and other daemons to read again what is published: the new generation, later than any before it even if
/// Redis has lost that.
///
/// # Errors
/// Those of Redis.
pub async fn announce(connection: &mut impl ConnectionLike) -> RedisResult<u64> {
    ANNOUNCE.key(GENERATION).invoke_async(connection).await
}

/// The generation published, `None` when nothing is.
///
/// # Errors
/// Those of Redis.
pub async fn generation(connection: &mut impl ConnectionLike) -> RedisResult<Option<u64>> {
    Cmd::get(GENERATION).query_async(connection).await
}
