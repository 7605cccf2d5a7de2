//! Publishes one shard, and migrates its buckets over a change of terms.

use super::{SLICE, remove::sweep_shard};
use crate::{connection::Connection, keyspace::ShardKeys, limit::Limit, reply::PublishReply, scripts};
use redis::RedisResult;
use std::time::Duration;
use tokio::time::sleep;

/// Publishes one shard of `limit`, after it has finished an earlier change. The terms apply from `since`, or from now.
/// A change that workers were told of carries the instant of its freeze in `frozen`. A limit that code has defined has an
/// end, `expires`. All instants are µs of Redis `TIME`.
///
/// # Errors
/// Errors of Redis. A second call does no harm.
pub async fn publish_shard(
    connection: &Connection,
    keys: &ShardKeys,
    limit: &Limit,
    since: Option<u64>,
    frozen: Option<u64>,
    expires: Option<u64>,
) -> RedisResult<PublishReply> {
    let conn = &mut connection.clone();
    loop {
        match scripts::publish_until(conn, keys, limit, since, frozen, expires).await? {
            published @ (PublishReply::Unchanged | PublishReply::Announced(_)) => return Ok(published),
            published @ (PublishReply::Changed | PublishReply::Created) => {
                if limit.algorithm.is_script_only() {
                    sweep_shard(connection, keys).await?;
                }
                return Ok(published);
            }
            PublishReply::TooEarly(wait) => sleep(Duration::from_micros(wait)).await,
            PublishReply::Busy => {
                // Without buckets to migrate, the keys are those of another algorithm or of a half removed limit.
                if migrate_all(connection, keys).await? == 0 {
                    sweep_shard(connection, keys).await?;
                }
            }
        }
    }
}

/// Migrates every bucket of a shard to the present terms. Returns the number of buckets.
///
/// # Errors
/// Errors of Redis. A second call does no harm.
pub async fn migrate_all(connection: &Connection, keys: &ShardKeys) -> RedisResult<u64> {
    let conn = &mut connection.clone();
    let mut migrated = 0;
    if !scripts::is_migrating(conn, keys).await? {
        return Ok(migrated);
    }
    loop {
        let members = scripts::list_previous(conn, keys, SLICE).await?;
        // An empty list is sent, too: if workers have migrated the last bucket, the script marks the record as
        // finished.
        let slice = scripts::migrate(conn, keys, &members).await?;
        migrated += slice.migrated;
        if slice.migrated == 0 || slice.left == 0 {
            return Ok(migrated);
        }
    }
}
