//! Looks at definitions of limits by code: whose they are, and which of them have ended.

use std::collections::BTreeSet;

use redis::{Cmd, RedisResult};

use crate::{
    claims::{Definition, Owner},
    limit::LimitName,
    namespace::InNamespace,
};

/// The mark of a change that is under way, or was not announced.
const CHANGING: &str = " !";

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

/// The owner in a definition, as it stands in Redis.
pub(super) fn owner_of(value: &str) -> Owner {
    Owner::published(value.strip_suffix(CHANGING).unwrap_or(value))
}
