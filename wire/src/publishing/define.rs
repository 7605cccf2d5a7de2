//! Limits that code defines: published by the program itself, for as long as it renews them.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{
    define_error::{ATTEMPTS, DefineError},
    publish_defined::publish,
    remove::remove,
    undefine::{read, remove_ended},
};
use crate::{
    claims::Owner,
    connection::Connection,
    constants::UNCONFIRMED_MICROS,
    keyspace::ShardKeys,
    limit::{Limit, Shards},
    namespace::InNamespace,
    scripts::{self, DefineReply},
};

/// The shortest and the longest time for which a limit is defined.
pub const DEFINED_FOR: (Duration, Duration) =
    (Duration::from_micros(UNCONFIRMED_MICROS), Duration::from_secs(366 * 24 * 3_600));

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

/// Defines `limit` for `owner` and the time `ttl`, or renews it. Returns the effect, and the end of the definition in
/// µs of Redis `TIME`. When this returns, the limit is in force everywhere; workers that knew other terms have applied
/// them until the same instant.
///
/// A change of the capacity or rate of a token bucket waits for [`FREEZE`](scripts::FREEZE), by `sleep`.
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
        let published = publish(connection, &keys, limit, before.as_ref(), owner, held.until, &sleep).await?;
        let Some(until) = published else { continue };
        if !matches!(scripts::change_defined(&mut conn, name, owner, false).await?, DefineReply::Held(_)) {
            continue;
        }
        let effect = match before {
            None => Defined::New,
            Some(before) if before == *limit => Defined::Renewed,
            Some(_) => Defined::Changed,
        };
        return Ok((effect, until));
    }
    Err(DefineError::Contested)
}
