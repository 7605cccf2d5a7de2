//! Refilling: the daemon's pass over counting buckets.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::script;
use crate::{constants::EXACT, keyspace::ShardKeys, reply::Refilled};

static REFILL: LazyLock<Script> = script!("rest.lua" "refill.lua");

/// The buckets of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Due buckets. A bucket that is far from full is due less often.
    Due,
    /// All buckets that are owed a token, and those ahead of a clock that stepped back.
    All,
    /// The rest of all, as of this instant in µs of Redis `TIME`. Without an instant, such a pass over many buckets
    /// would not end.
    Rest(u64),
}

/// Number of counting buckets of the shard.
///
/// # Errors
/// Errors of Redis.
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

/// Whether any bucket of the shard counts. Far cheaper than a pass, and enough for most shards.
///
/// # Errors
/// Errors of Redis.
pub async fn is_active(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<bool> {
    Cmd::exists(&keys.due).query_async(connection).await
}

/// Credits buckets of the shard in one step, `most` at most.
///
/// May be sent again without harm, since no time is credited twice.
///
/// # Errors
/// Errors of Redis.
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
