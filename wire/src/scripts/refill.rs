//! The daemon's pass over the buckets that have a counter.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::script;
use crate::{constants::EXACT, keyspace::ShardKeys, reply::Refilled};

static REFILL: LazyLock<Script> = script!("rest.lua" "refill.lua");

/// Which buckets a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Those that are due; the farther a bucket is from full, the less often it is.
    Due,
    /// All to which a token is owed, and those ahead of a clock that stepped back.
    All,
    /// What is left of all since this instant, in µs of Redis `TIME`; without it, there would always be more of many.
    Rest(u64),
}

/// How many buckets of the shard have a counter.
///
/// # Errors
/// Those of Redis.
pub async fn count_active(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<u64> {
    let (due, previous): (u64, u64) = redis::pipe()
        .cmd("ZCARD")
        .arg(&keys.due)
        .cmd("ZCARD")
        .arg(&keys.previous)
        .query_async(connection)
        .await?;
    Ok(due + previous)
}

/// Whether any bucket of the shard has a counter: what most shards are asked most of the time, far cheaper than a pass.
///
/// # Errors
/// Those of Redis.
pub async fn is_active(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<bool> {
    Cmd::exists(&keys.due).query_async(connection).await
}

/// Credits buckets of the shard in one step, `most` at most.
///
/// May be sent again without harm: time is credited once.
///
/// # Errors
/// Those of Redis.
pub async fn refill(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
    look: Look,
) -> RedisResult<Refilled> {
    let mut call = REFILL.prepare_invoke();
    call.key(&keys.record).key(&keys.due).key(&keys.counters);
    let all = match look {
        Look::Due => 0,
        Look::All => EXACT,
        Look::Rest(since) => since,
    };
    call.arg(most).arg(all).invoke_async(connection).await
}
