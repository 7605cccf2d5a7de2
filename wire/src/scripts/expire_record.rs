//! The end of a defined limit in its record.

use std::sync::LazyLock;

use redis::{RedisResult, Script, aio::ConnectionLike};

use crate::keyspace::ShardKeys;

static EXPIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("expire.lua")));

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
    expire(connection, keys, &expires.to_string(), None).await
}

/// Ends a defined limit in its record, if it ends at `seen` there, or at any instant. Returns whether it does.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn end_record(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    seen: Option<u64>,
) -> RedisResult<bool> {
    expire(connection, keys, "end", seen).await
}

/// Removes the record of a defined limit that has ended, and the indexes of its holds and permits. Returns whether there
/// is none any more: a record that was renewed stays.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn drop_expired(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<bool> {
    expire(connection, keys, "drop", None).await
}

async fn expire(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    to: &str,
    seen: Option<u64>,
) -> RedisResult<bool> {
    let seen = seen.map_or_else(String::new, |seen| seen.to_string());
    let mut call = EXPIRE.key(&keys.record);
    call.key(keys.holds()).key(keys.permits()).arg(to).arg(seen).invoke_async(connection).await
}
