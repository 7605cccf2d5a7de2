//! Definitions of limits by code: who has defined which limit, and until when.

use std::{collections::BTreeSet, sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use crate::{
    claims::{Definition, Owner},
    keyspace::ShardKeys,
    limit::{LimitName, MOST_DEFINED},
    namespace::InNamespace,
};

static DEFINE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("define.lua")));
static EXPIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("expire.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("forget_defined.lua")));

/// The mark of a change that is under way, or was not announced.
const CHANGING: &str = " !";

/// A definition that the caller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldDefinition {
    /// Its end, in µs of Redis `TIME`.
    pub until: u64,
    /// Whether a change of the limit may not be announced: the definition is new, or its last change was cut short.
    pub is_unannounced: bool,
}

/// The outcome of a change of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefineReply {
    /// Done.
    Held(HeldDefinition),
    /// Another owner has defined the limit.
    Owned(Definition),
    /// A limit of a config has that name. The config is named if one claims the limit.
    OfConfig(Option<Owner>),
    /// There are [`MOST_DEFINED`] definitions.
    TooMany,
    /// The definition of another owner has ended, and its keys are not removed yet.
    Ended,
    /// There is no such definition.
    Unknown,
}

/// Begins the definition of the limit `name` by `owner`, or renews it. It ends after the time `ttl`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn hold_defined(
    connection: &mut impl InNamespace,
    name: &LimitName,
    owner: &Owner,
    ttl: Duration,
) -> RedisResult<DefineReply> {
    define(connection, "hold", name, owner, ttl).await
}

/// Notes that a change of the limit is `under_way`, or announced.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn change_defined(
    connection: &mut impl InNamespace,
    name: &LimitName,
    owner: &Owner,
    under_way: bool,
) -> RedisResult<DefineReply> {
    define(connection, if under_way { "change" } else { "done" }, name, owner, Duration::ZERO).await
}

/// Lets a definition end now. The keys of the limit stay.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn end_defined(
    connection: &mut impl InNamespace,
    name: &LimitName,
    owner: &Owner,
) -> RedisResult<DefineReply> {
    define(connection, "end", name, owner, Duration::ZERO).await
}

async fn define(
    connection: &mut impl InNamespace,
    operation: &str,
    name: &LimitName,
    owner: &Owner,
    ttl: Duration,
) -> RedisResult<DefineReply> {
    let namespace = connection.namespace();
    let mut call = DEFINE.key(namespace.defined());
    call.key(namespace.ends()).key(namespace.limits()).key(namespace.claims());
    call.arg(operation).arg(name.as_str()).arg(owner.as_str()).arg(ttl.as_micros() as u64).arg(MOST_DEFINED);
    let (outcome, _now, until, owner): (u8, u64, u64, String) = call.invoke_async(connection).await?;
    Ok(match outcome {
        0 | 1 => DefineReply::Held(HeldDefinition { until, is_unannounced: outcome == 1 }),
        2 => DefineReply::Owned(Definition { owner: Owner::published(&owner), until }),
        3 => DefineReply::OfConfig((!owner.is_empty()).then(|| Owner::published(&owner))),
        4 => DefineReply::TooMany,
        5 => DefineReply::Ended,
        _ => DefineReply::Unknown,
    })
}

/// The definition of the limit `name`, if code has defined it.
///
/// # Errors
/// Errors of Redis.
pub async fn definition(
    connection: &mut impl InNamespace,
    name: &LimitName,
) -> RedisResult<Option<Definition>> {
    let namespace = connection.namespace();
    let mut pipe = redis::pipe();
    pipe.hget(namespace.defined(), name.as_str()).zscore(namespace.ends(), name.as_str());
    let (owner, until): (Option<String>, Option<f64>) = pipe.query_async(connection).await?;
    let until = until.map_or(0, |until| until as u64);
    Ok(owner.map(|owner| Definition { owner: owner_of(&owner), until }))
}

/// Whether code has defined any limit.
///
/// # Errors
/// Errors of Redis.
pub async fn has_definitions(connection: &mut impl InNamespace) -> RedisResult<bool> {
    let ends = connection.namespace().ends();
    Cmd::zcard(ends).query_async::<u64>(connection).await.map(|ends| ends > 0)
}

/// All limits that code has defined.
///
/// # Errors
/// Errors of Redis.
pub async fn defined_limits(connection: &mut impl InNamespace) -> RedisResult<BTreeSet<LimitName>> {
    let names: Vec<String> =
        Cmd::zrange(connection.namespace().ends(), 0, -1).query_async(connection).await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Up to `most` limits whose definition ended at `until` or earlier, in µs of Redis `TIME`.
///
/// # Errors
/// Errors of Redis.
pub async fn ended_definitions(
    connection: &mut impl InNamespace,
    until: u64,
    most: usize,
) -> RedisResult<Vec<LimitName>> {
    let ends = connection.namespace().ends();
    let names: Vec<String> =
        Cmd::zrangebyscore_limit(ends, "-inf", until, 0, most as isize).query_async(connection).await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Moves the end of a defined limit in its record to `expires`, unless that is nearer. Returns whether there is a record
/// with an end.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn expire_record(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    expires: u64,
) -> RedisResult<bool> {
    expire(connection, keys, &expires.to_string()).await
}

/// Ends a defined limit in its record. Returns whether there is a record with an end.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn end_record(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<bool> {
    expire(connection, keys, "end").await
}

/// Removes the record of a defined limit that has ended, and the indexes of its holds and permits. Returns whether there
/// is none any more: a record that was renewed stays.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn drop_expired(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<bool> {
    expire(connection, keys, "drop").await
}

async fn expire(connection: &mut impl ConnectionLike, keys: &ShardKeys, to: &str) -> RedisResult<bool> {
    let mut call = EXPIRE.key(&keys.record);
    call.key(keys.holds()).key(keys.permits()).arg(to).invoke_async(connection).await
}

/// Forgets a definition that has ended, and its entry in the registry. Returns whether it was still there, and had ended.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn forget_defined(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<bool> {
    let namespace = connection.namespace();
    let mut call = FORGET.key(namespace.defined());
    call.key(namespace.ends()).key(namespace.limits()).arg(name.as_str()).invoke_async(connection).await
}

/// The owner in a definition, as it stands in Redis.
pub(super) fn owner_of(value: &str) -> Owner {
    Owner::published(value.strip_suffix(CHANGING).unwrap_or(value))
}
