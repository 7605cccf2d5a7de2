//! Limits that code defines: published by the program itself, for as long as it renews them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{RedisError, RedisResult};

use super::{
    at_rest::settle_at_rest,
    remove::{remove, sweep_shard, sweep_states},
    shard::{migrate_all, publish_shard},
};
use crate::{
    bucket::Operation,
    claims::{Definition, Owner},
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, MOST_DEFINED, Shards},
    namespace::InNamespace,
    reply::{PublishReply, PublishedLimit},
    scripts::{self, DefineReply, FREEZE},
};

/// The shortest and the longest time for which a limit is defined.
pub const DEFINED_FOR: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(366 * 24 * 3_600));

/// Attempts to define a limit, while others remove or change it.
const ATTEMPTS: u32 = 8;

/// The effect of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defined {
    /// The limit was not defined before, or had ended.
    New,
    /// It had these terms already. They hold for longer now.
    Renewed,
    /// It had other terms, and has these now.
    Changed,
}

/// Why a limit is not defined.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefineError {
    /// Another owner has defined it.
    #[error("{} has defined it by code: take another name, or end that definition first", .0.owner)]
    Owned(Definition),
    /// A config has a limit of this name.
    #[error("a config has a limit of this name, which code does not change: take another name")]
    OfConfig(Option<Owner>),
    /// There are too many definitions.
    #[error("{MOST_DEFINED} limits are defined by code already: end some")]
    TooMany,
    /// The limit is removed or changed by others again and again.
    #[error("it is defined with different terms all the time")]
    Contested,
    /// The Redis user may not define limits.
    #[error(
        "the Redis user may not define limits: give it the rights of topup-definer, as \"topupd acl\" prints them"
    )]
    NotPermitted,
    /// An error of Redis.
    #[error(transparent)]
    Redis(RedisError),
}

// === impl DefineError ===

impl From<RedisError> for DefineError {
    fn from(error: RedisError) -> Self {
        // A call of a worker that may not write is sent again as one that only reads.
        match scripts::is_not_permitted(&error) || error.to_string().contains("read-only script") {
            true => Self::NotPermitted,
            false => Self::Redis(error),
        }
    }
}

/// Defines `limit` for `owner` and the time `ttl`, or renews it. Returns the effect, and the end of the definition in
/// µs of Redis `TIME`. When this returns, the limit is in force everywhere; workers that knew other terms have applied
/// them until the same instant.
///
/// A change of the capacity or rate of a token bucket waits for [`FREEZE`], by `sleep`.
///
/// # Errors
/// [`DefineError`]. After an error of Redis, a second call does no harm, and completes the first.
pub async fn define(
    connection: &Connection,
    limit: &Limit,
    owner: &Owner,
    ttl: Duration,
    sleep: impl Fn(Duration) -> BoxFuture<'static, ()>,
) -> Result<(Defined, u64), DefineError> {
    let (name, ttl) = (&limit.name, ttl.clamp(DEFINED_FOR.0, DEFINED_FOR.1));
    let keys = ShardKeys::new(connection.namespace(), name, 0);
    let (mut conn, mut reads) = (connection.clone(), connection.clone());
    for _ in 0..ATTEMPTS {
        let (held, before) =
            tokio::join!(scripts::hold_defined(&mut conn, name, owner, ttl), read(&mut reads, name));
        let held = match held? {
            DefineReply::Held(held) => held,
            DefineReply::Owned(definition) => return Err(DefineError::Owned(definition)),
            DefineReply::OfConfig(config) => return Err(DefineError::OfConfig(config)),
            DefineReply::TooMany => return Err(DefineError::TooMany),
            DefineReply::Ended | DefineReply::Unknown => {
                remove_ended(connection, name).await?;
                continue;
            }
        };
        let before = before?;
        let is_same = before.as_ref().is_some_and(|before| before.limit == *limit && !before.frozen);
        if is_same && !held.is_unannounced && scripts::expire_record(&mut conn, &keys, held.until).await? {
            return Ok((Defined::Renewed, held.until));
        }
        if before.as_ref().is_some_and(|before| before.limit.keyed != limit.keyed) {
            // A keyed and an unkeyed limit have no bucket in common.
            remove(connection, name, Shards::ONE).await?;
            continue;
        }
        // A new definition is marked as unannounced already.
        if !held.is_unannounced
            && !matches!(scripts::change_defined(&mut conn, name, owner, true).await?, DefineReply::Held(_))
        {
            continue;
        }
        let before = before.map(|before| before.limit);
        if !publish(connection, &keys, limit, before.as_ref(), held.until, &sleep).await? {
            continue;
        }
        // Redis may have lost the definition, or it was ended.
        if !matches!(scripts::change_defined(&mut conn, name, owner, false).await?, DefineReply::Held(_)) {
            continue;
        }
        let effect = match before {
            None => Defined::New,
            Some(before) if before == *limit => Defined::Renewed,
            Some(_) => Defined::Changed,
        };
        return Ok((effect, held.until));
    }
    Err(DefineError::Contested)
}

/// Publishes `limit`, as a daemon does. Returns whether it is published: others may change it all the time.
async fn publish(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
    before: Option<&Limit>,
    expires: u64,
    sleep: impl Fn(Duration) -> BoxFuture<'static, ()>,
) -> RedisResult<bool> {
    let conn = &mut connection.clone();
    let mut known = None;
    for _ in 0..ATTEMPTS {
        let reply = publish_shard(connection, keys, limit, None, known, Some(expires)).await?;
        if let PublishReply::Announced(frozen) = reply {
            scripts::announce_one(conn, &limit.name).await?;
            sleep(FREEZE).await;
            known = Some(frozen);
            continue;
        }
        if let Some(before) = before.filter(|before| *before != limit) {
            update_states(connection, keys, limit, before).await?;
        }
        scripts::announce_one(conn, &limit.name).await?;
        // A change that was cut short has changed the record, and perhaps no bucket.
        let is_of_terms = before.is_some_and(|before| before == limit || before.terms != limit.terms);
        if limit.algorithm == Algorithm::TokenBucket && is_of_terms {
            migrate_all(connection, keys).await?;
            settle_at_rest_of(connection, keys, limit).await?;
        }
        return Ok(true);
    }
    Ok(false)
}

/// Removes the states of the algorithm before, or adapts states of the same algorithm to the terms of `limit`.
async fn update_states(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
    before: &Limit,
) -> RedisResult<()> {
    let conn = &mut connection.clone();
    if before.algorithm != limit.algorithm {
        return remove_states(connection, keys, before).await;
    }
    if !limit.algorithm.is_script_only() || limit.algorithm.has_permits() {
        return Ok(());
    }
    if !limit.keyed {
        let nothing = Operation::Refund(0);
        return scripts::settle(conn, limit.algorithm, keys, "", nothing, false, 0).await.map(drop);
    }
    for mut node in connection.each_node().await? {
        scripts::touch_states(conn, &mut node, &limit.name, limit.algorithm).await?;
    }
    Ok(())
}

/// Settles the buckets at rest, so that they expire when they are full under the present terms.
async fn settle_at_rest_of(connection: &Connection, keys: &ShardKeys, limit: &Limit) -> RedisResult<()> {
    if limit.keyed {
        return settle_at_rest(connection, &limit.name).await;
    }
    let (conn, nothing) = (&mut connection.clone(), Operation::Refund(0));
    scripts::settle(conn, limit.algorithm, keys, "", nothing, false, 0).await.map(drop)
}

/// Removes the states of `limit`. Only a scan of the keyspace finds those of a keyed limit.
async fn remove_states(connection: &Connection, keys: &ShardKeys, limit: &Limit) -> RedisResult<()> {
    if limit.keyed {
        return sweep_states(connection, &limit.name, Some(limit), 0).await;
    }
    scripts::remove_state(&mut connection.clone(), keys, limit.algorithm, "").await
}

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
    if !is_own(scripts::change_defined(conn, name, owner, true).await?)? {
        return match scripts::is_registered(conn, name).await? {
            true => Err(DefineError::OfConfig(None)),
            false => Ok(false),
        };
    }
    for _ in 0..ATTEMPTS {
        // The record ends first. If this is cut short, workers know no limit, and a daemon removes the keys later.
        scripts::end_record(conn, &keys).await?;
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

/// The limit as published; `None` for a record that is not there or cannot be read.
async fn read(connection: &mut Connection, name: &LimitName) -> RedisResult<Option<PublishedLimit>> {
    match scripts::read_limit(connection, name).await {
        Err(error) if scripts::is_corruption(&error) => Ok(None),
        read => read,
    }
}
