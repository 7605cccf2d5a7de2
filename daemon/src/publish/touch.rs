//! Bringing buckets at rest under new terms.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName},
    scripts,
};

use super::ABREAST;

/// Settles every bucket of the limit `name` that is at rest, so that it expires when it is full under the present terms.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn touch_at_rest(connection: &Connection, name: &LimitName) -> RedisResult<()> {
    for mut node in connection.each_node().await? {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (found, next) = scripts::find_at_rest(&mut node, name, from).await?;
            let each = found.into_iter().map(|(shard, member)| {
                let mut connection = connection.clone();
                async move {
                    let (keys, nothing) = (ShardKeys::new(name, shard), Operation::Refund(0));
                    scripts::settle(
                        &mut connection,
                        Algorithm::TokenBucket,
                        &keys,
                        &member,
                        nothing,
                        false,
                        0,
                    )
                    .await
                }
            });
            stream::iter(each).buffer_unordered(ABREAST).try_for_each(|_| async { Ok(()) }).await?;
            cursor = next;
        }
    }
    Ok(())
}
