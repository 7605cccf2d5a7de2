//! The publication of a limit that code defines, and of its changes, as a daemon makes them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::RedisResult;

use super::{
    at_rest::settle_at_rest,
    define_error::ATTEMPTS,
    shard::{migrate_all, publish_shard},
    undefine::remove_states,
};
use crate::{
    bucket::Operation,
    claims::Owner,
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit},
    reply::PublishReply,
    scripts::{self, DefineReply, FREEZE},
};

/// Publishes `limit`, as a daemon does. Returns the end of its definition, in µs of Redis `TIME`; `None` if it is not
/// published. Others may change it all the time, or end its definition.
pub(super) async fn publish(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
    before: Option<&Limit>,
    owner: &Owner,
    expires: u64,
    sleep: impl Fn(Duration) -> BoxFuture<'static, ()>,
) -> RedisResult<Option<u64>> {
    let conn = &mut connection.clone();
    let mut known = None;
    for _ in 0..ATTEMPTS {
        let reply = publish_shard(connection, keys, limit, None, known, Some(expires)).await?;
        if let PublishReply::Announced(frozen) = reply {
            scripts::announce_one(conn, &limit.name).await?;
            sleep(FREEZE).await;
            known = Some(frozen);
        }
        // The definition may have ended meanwhile, and another owner may have the limit. Or Redis lost all data. A record
        // that was written nevertheless ends soon.
        let DefineReply::Held(held) = scripts::change_defined(conn, &limit.name, owner, true).await? else {
            return Ok(None);
        };
        if matches!(reply, PublishReply::Announced(_)) {
            continue;
        }
        if !scripts::expire_record(conn, keys, held.until).await? {
            return Ok(None);
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
        return Ok(Some(held.until));
    }
    Ok(None)
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
        return scripts::settle(conn, limit.algorithm, keys, "", nothing, false, None).await.map(drop);
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
    scripts::settle(conn, limit.algorithm, keys, "", nothing, false, None).await.map(drop)
}
