//! The registry of published limits, and the generation.

use std::{collections::BTreeMap, slice, sync::LazyLock};

use redis::{Cmd, RedisResult, Script};

use super::daemons::poll;
use crate::{
    limit::{LimitName, Shards},
    namespace::InNamespace,
    schema::NewerSchema,
};

/// Most limits in the change log. A worker or daemon that has missed more of them reads all limits again.
pub const MOST_CHANGES_LOGGED: usize = 2_000;

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

/// Whether `name` has keys: a removed limit has none.
///
/// # Errors
/// Errors of Redis.
pub async fn is_registered(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<bool> {
    let limits = connection.namespace().limits();
    let shards: Option<Vec<u8>> = Cmd::hget(limits, name.as_str()).query_async(connection).await?;
    Ok(shards.is_some())
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

/// Notes that `name` has no keys left, and is no longer defined by code.
///
/// # Errors
/// Errors of Redis.
pub async fn forget(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    let (namespace, name) = (connection.namespace(), name.as_str());
    let mut pipe = redis::pipe();
    pipe.hdel(namespace.defined(), name).zrem(namespace.ends(), name).hdel(namespace.limits(), name);
    pipe.exec_async(connection).await
}

/// Counts a publication, so that workers and other daemons read all records again. Returns the new generation. It is
/// later than any before, even if Redis has lost that one.
///
/// # Errors
/// Errors of Redis.
pub async fn announce(connection: &mut impl InNamespace) -> RedisResult<u64> {
    announce_some(connection, &[]).await
}

/// The same for a change of the limit `name` alone: all other records are as they were.
///
/// # Errors
/// Errors of Redis.
pub async fn announce_one(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<u64> {
    announce_some(connection, slice::from_ref(name)).await
}

async fn announce_some(connection: &mut impl InNamespace, names: &[LimitName]) -> RedisResult<u64> {
    let namespace = connection.namespace();
    let mut call = ANNOUNCE.key(namespace.generation());
    call.key(namespace.changes()).arg(MOST_CHANGES_LOGGED);
    for name in names {
        call.arg(name.as_str());
    }
    call.invoke_async(connection).await
}

/// The limits that have changed between the generations `known` and `now`; `None` if any may have.
///
/// # Errors
/// Errors of Redis.
pub async fn changed_limits(
    connection: &mut impl InNamespace,
    known: u64,
    now: u64,
) -> RedisResult<Option<Vec<LimitName>>> {
    let log = Cmd::zrangebyscore_withscores(connection.namespace().changes(), format!("({known}"), "+inf");
    let changed: Vec<(Vec<u8>, f64)> = log.query_async(connection).await?;
    let mut names = Vec::with_capacity(changed.len());
    let mut is_complete = false;
    for (member, score) in changed {
        match member.as_slice() {
            b" since" => return Ok(None),
            b" last" => is_complete = score >= now as f64,
            name => match str::from_utf8(name).map(LimitName::published) {
                Ok(Ok(name)) => names.push(name),
                _ => return Ok(None),
            },
        }
    }
    Ok(is_complete.then_some(names))
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
