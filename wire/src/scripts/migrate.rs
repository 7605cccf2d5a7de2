//! Migration of buckets over a change of terms.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::{call_on_members, script};
use crate::{keyspace::ShardKeys, reply::Migrated};

static MIGRATE: LazyLock<Script> = script!("rest.lua" "migrate.lua");

/// Whether buckets may still have to be migrated over the last change, as the record says.
///
/// # Errors
/// Errors of Redis.
pub async fn is_migrating(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<bool> {
    let previous: Option<Vec<u8>> = Cmd::hget(&keys.record, "former").query_async(connection).await?;
    Ok(previous.is_some_and(|previous| previous == b"1"))
}

/// The first `most` buckets that are not migrated over the last change yet.
///
/// # Errors
/// Errors of Redis.
pub async fn list_previous(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
) -> RedisResult<Vec<Vec<u8>>> {
    Cmd::zrange(&keys.previous, 0, most.saturating_sub(1) as isize).query_async(connection).await
}

/// Migrates the buckets `members` over the last change in one step, unless that is done already. Clears the record's
/// flag if no bucket is left after it.
///
/// May be sent again without harm.
///
/// # Errors
/// Errors of Redis.
pub async fn migrate(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    members: &[impl AsRef<[u8]>],
) -> RedisResult<Migrated> {
    let first = [&*keys.record, &keys.due, &keys.previous];
    call_on_members(&MIGRATE, &first, keys, members).invoke_async(connection).await
}
