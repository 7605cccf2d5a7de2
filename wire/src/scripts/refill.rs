//! The daemon's pass over the buckets that are not full.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::script;
use crate::{keyspace::ShardKeys, reply::Refilled};

static REFILL: LazyLock<Script> = script!("refill.lua");

/// The first `most` buckets credited up to `bound` (µs of Redis `TIME`) at the latest, the longest-waiting first, each
/// with the instant it is credited up to.
///
/// # Errors
/// Those of Redis.
pub async fn list_due(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    bound: u64,
    most: usize,
) -> RedisResult<Vec<String>> {
    let mut list = Cmd::new();
    list.arg("ZRANGEBYSCORE").arg(&keys.due).arg("-inf").arg(bound).arg("LIMIT").arg(0).arg(most);
    list.query_async(connection).await
}

/// The first `most` buckets credited up to an instant after `now`: only a clock that stepped back leaves any.
///
/// # Errors
/// Those of Redis.
pub async fn list_future(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    now: u64,
    most: usize,
) -> RedisResult<Vec<String>> {
    let mut list = Cmd::new();
    list.arg("ZRANGEBYSCORE").arg(&keys.due).arg(format!("({now}")).arg("+inf").arg("LIMIT").arg(0).arg(most);
    list.query_async(connection).await
}

/// How many buckets of the shard are not full.
///
/// # Errors
/// Those of Redis.
pub async fn count_active(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<u64> {
    let (due, former): (u64, u64) = redis::pipe()
        .cmd("ZCARD")
        .arg(&keys.due)
        .cmd("ZCARD")
        .arg(&keys.former)
        .query_async(connection)
        .await?;
    Ok(due + former)
}

/// Credits the buckets `members`, those of them that are due, in one step.
///
/// May be sent again without harm: time is credited once.
///
/// # Errors
/// Those of Redis.
pub async fn refill(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    members: &[String],
) -> RedisResult<Refilled> {
    let mut call = REFILL.prepare_invoke();
    call.key(&keys.record).key(&keys.due);
    for member in members {
        call.key(keys.counter(member));
    }
    call.arg(keys.counters.len()).invoke_async(connection).await
}

/// The instant up to which the bucket waiting longest is credited, in µs of Redis `TIME`; `None` when all are full.
///
/// # Errors
/// Those of Redis.
pub async fn earliest(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<Option<u64>> {
    let mut first: Vec<(String, f64)> =
        Cmd::zrange_withscores(&keys.due, 0, 0).query_async(connection).await?;
    Ok(first.pop().map(|(_, score)| score as u64))
}
