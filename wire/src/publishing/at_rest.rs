//! Settles buckets at rest after a change of terms.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::RedisResult;

use super::MAX_CONCURRENT;
use crate::{
    bucket::Operation,
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName},
    namespace::InNamespace,
    scripts,
};

/// Settles every bucket at rest of the limit `name`, so that its key expires when the bucket is full under the present
/// terms.
///
/// # Errors
/// Errors of Redis. A second call does no harm.
pub async fn settle_at_rest(connection: &Connection, name: &LimitName) -> RedisResult<()> {
    for mut node in connection.each_node().await? {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (buckets, next) = scripts::find_at_rest(&mut node, name, from).await?;
            let settling = buckets.into_iter().map(|(shard, member)| {
                let mut connection = connection.clone();
                async move {
                    // A refund of no tokens changes the form and the expiry only.
                    let (keys, nothing) =
                        (ShardKeys::new(connection.namespace(), name, shard), Operation::Refund(0));
                    let bucket = Algorithm::TokenBucket;
                    scripts::settle(&mut connection, bucket, &keys, &member, nothing, false, None).await
                }
            });
            stream::iter(settling)
                .buffer_unordered(MAX_CONCURRENT)
                .try_for_each(|_| async { Ok(()) })
                .await?;
            cursor = next;
        }
    }
    Ok(())
}
