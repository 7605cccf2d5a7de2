//! The end of limits that code has defined, and the removal of their keys.

use redis::RedisResult;

use super::{
    define_error::{ATTEMPTS, DefineError},
    remove::{sweep_shard, sweep_states},
};
use crate::{
    claims::Owner,
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Limit, LimitName},
    namespace::InNamespace,
    reply::PublishedLimit,
    scripts::{self, DefineReply},
};

/// Ends the definition of the limit `name` by `owner`, and removes all its keys. Returns whether there was one.
///
/// # Errors
/// [`DefineError`]. After an error of Redis, a second call completes the first. A daemon does so, too.
pub async fn undefine(connection: &Connection, name: &LimitName, owner: &Owner) -> Result<bool, DefineError> {
    let conn = &mut connection.clone();
    let keys = ShardKeys::new(connection.namespace(), name, 0);
    let is_own = |reply| match reply {
        DefineReply::Held(_) => Ok(true),
        DefineReply::Owned(definition) => Err(DefineError::Owned(definition)),
        DefineReply::OfConfig(config) => Err(DefineError::OfConfig(config)),
        DefineReply::TooMany | DefineReply::Ended | DefineReply::Unknown => Ok(false),
    };
    for attempt in 0..ATTEMPTS {
        // Another owner may have the limit by the time the command comes. Its record ends at another instant.
        let seen = read(conn, name).await?.and_then(|read| read.expires);
        if !is_own(scripts::change_defined(conn, name, owner, true).await?)? {
            return match scripts::is_registered(conn, name).await? {
                true if attempt == 0 => Err(DefineError::OfConfig(None)),
                _ => Ok(attempt > 0),
            };
        }
        // The record ends first. If this is cut short, workers know no limit, and a daemon removes the keys later.
        scripts::end_record(conn, &keys, seen).await?;
        // A renewal that was under way may have moved the end of the record again.
        if !is_own(scripts::end_defined(conn, name, owner).await?)? || remove_ended(connection, name).await? {
            return Ok(true);
        }
    }
    Err(DefineError::Contested)
}

/// Removes all keys of a limit whose definition has ended. Returns whether it did: one that was renewed stays.
///
/// # Errors
/// Errors of Redis. A second call removes what is left.
pub async fn remove_ended(connection: &Connection, name: &LimitName) -> RedisResult<bool> {
    let conn = &mut connection.clone();
    let keys = ShardKeys::new(connection.namespace(), name, 0);
    let limit = read(conn, name).await?.map(|before| before.limit);
    if !scripts::drop_expired(conn, &keys).await? {
        return Ok(false);
    }
    sweep_shard(connection, &keys).await?;
    match &limit {
        Some(limit) => remove_states(connection, &keys, limit).await?,
        None => sweep_states(connection, name, None, 0).await?,
    }
    scripts::clear_counts(conn, name).await?;
    scripts::resume_all(conn, name).await?;
    scripts::forget_assigned(conn, name).await?;
    let is_gone = scripts::forget_defined(conn, name).await?;
    if is_gone {
        scripts::announce_one(conn, name).await?;
    }
    Ok(is_gone)
}

/// Removes the states of `limit`. Only a scan of the keyspace finds those of a keyed limit.
pub(super) async fn remove_states(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
) -> RedisResult<()> {
    if limit.keyed {
        return sweep_states(connection, &limit.name, Some(limit), 0).await;
    }
    scripts::remove_state(&mut connection.clone(), keys, limit.algorithm, "").await
}

/// The limit as published; `None` for a record that is not there or cannot be read.
pub(super) async fn read(
    connection: &mut Connection,
    name: &LimitName,
) -> RedisResult<Option<PublishedLimit>> {
    match scripts::read_limit(connection, name).await {
        Err(error) if scripts::is_corruption(&error) => Ok(None),
        read => read,
    }
}
