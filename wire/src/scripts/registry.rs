//! The registry of published limits, and the generation.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{Cmd, RedisResult, Script};

use super::daemons::poll;
use crate::{
    limit::{LimitName, Shards},
    namespace::InNamespace,
    schema::NewerSchema,
};

static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("announce.lua")));

/// The published limits and the most shards that each has had. Entries that this version cannot read are left out.
///
/// # Errors
/// Errors of Redis.
pub async fn published_limits(connection: &mut impl InNamespace) -> RedisResult<BTreeMap<LimitName, Shards>> {
    let limits = connection.namespace().limits();
    let entries: BTreeMap<Vec<u8>, Vec<u8>> = Cmd::hgetall(limits).query_async(connection).await?;
    let read = |(name, shards): (Vec<u8>, Vec<u8>)| {
        let (name, shards) = (String::from_utf8(name).ok()?, String::from_utf8(shards).ok()?);
        Some((LimitName::published(&name).ok()?, Shards::new(shards.parse().ok()?).ok()?))
    };
    Ok(entries.into_iter().filter_map(read).collect())
}

/// Notes that `name` has keys in `shards` shards. Comes before the first key, so that an unfinished limit can be
/// removed.
///
/// # Errors
/// Errors of Redis.
pub async fn register(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shards: Shards,
) -> RedisResult<()> {
    Cmd::hset(connection.namespace().limits(), name.as_str(), shards.get()).query_async(connection).await
}

/// Notes that `name` has no keys left.
///
/// # Errors
/// Errors of Redis.
pub async fn forget(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    Cmd::hdel(connection.namespace().limits(), name.as_str()).query_async(connection).await
}

/// Counts a publication, so that workers and other daemons read the records again. Returns the new generation. It is
/// later than any before, even if Redis has lost that one.
///
/// # Errors
/// Errors of Redis.
pub async fn announce(connection: &mut impl InNamespace) -> RedisResult<u64> {
    ANNOUNCE.key(connection.namespace().generation()).invoke_async(connection).await
}

/// The published generation; `None` if nothing is published.
///
/// # Errors
/// Errors of Redis.
pub async fn generation(connection: &mut impl InNamespace) -> RedisResult<Option<u64>> {
    Cmd::get(connection.namespace().generation()).query_async(connection).await
}

/// The schema in Redis, if this version does not know it. Commands by hand ask for it; workers and daemons learn it from
/// polls and heartbeats.
///
/// # Errors
/// Errors of Redis.
pub async fn newer_schema(connection: &mut impl InNamespace) -> RedisResult<Option<NewerSchema>> {
    Ok(poll(connection).await?.newer_schema)
}

/// Redis `TIME`, in µs.
///
/// # Errors
/// Errors of Redis.
pub async fn now(connection: &mut impl InNamespace) -> RedisResult<u64> {
    Ok(poll(connection).await?.now)
}
