//! Allowed and denied takes of each limit per second.

use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{self, StreamExt, TryStreamExt},
};
use redis::RedisResult;
use topup_wire::{connection::Connection, limit::LimitName, scripts};

use super::gather::{Pace, shown};

/// Allowed and denied takes of each limit per second, and nothing else: for a look that is taken again and again.
///
/// # Errors
/// Errors of Redis.
pub(crate) async fn rates(connection: &Connection) -> RedisResult<Vec<(LimitName, [f64; 2])>> {
    let mut asked = connection.clone();
    if scripts::newer_schema(&mut asked).await?.is_some() {
        return Ok(Vec::new());
    }
    let now = scripts::now(&mut asked).await?;
    let published = scripts::published_limits(&mut asked).await?;
    let (names, _) = shown(published, &scripts::defined_limits(&mut asked).await.unwrap_or_default());
    let rates = names.into_iter().map(|name| {
        let mut connection = connection.clone();
        async move { Ok((name, scripts::counts(&mut connection, &name).await?.1.per_second(now))) }.boxed()
    });
    let rates: Vec<BoxFuture<'_, RedisResult<_>>> = rates.collect();
    stream::iter(rates).buffer_unordered(Pace::GENTLE.limits).try_collect().await
}
