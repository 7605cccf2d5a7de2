//! Reads the published limits, by whichever daemon they were published.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    limit::{Limit, LimitName},
    namespace::InNamespace,
    reply::PublishedLimit,
    scripts,
};

use super::shard::Shard;
use crate::publish::{MAX_CONCURRENT, is_unreadable};

/// The limits and their shards to be refilled, and the generation that published them.
pub(super) struct PublishedShards {
    pub(super) generation: u64,
    pub(super) registered: BTreeSet<LimitName>,
    /// The registered limits that this version can read.
    pub(super) limits: Vec<Limit>,
    pub(super) shards: Vec<Shard>,
}

/// Reads the generation and all limits.
pub(super) async fn read_published(mut connection: Connection) -> RedisResult<PublishedShards> {
    // The generation first: limits published meanwhile have a higher one, and are read again.
    let generation = scripts::generation(&mut connection).await?.unwrap_or(0);
    let names = scripts::published_limits(&mut connection).await?;
    let registered = names.keys().copied().collect();
    let reading = names.into_keys().map(|name| {
        let mut connection = connection.clone();
        async move { readable(&name, scripts::read_limit(&mut connection, &name).await) }
    });
    let limits: Vec<_> = stream::iter(reading).buffered(MAX_CONCURRENT).try_collect().await?;
    let limits: Vec<Limit> = limits.into_iter().flatten().collect();
    Ok(PublishedShards {
        generation,
        registered,
        shards: limits.iter().flat_map(|limit| Shard::of(connection.namespace(), limit)).collect(),
        limits,
    })
}

/// A limit as published; `None` if its record is gone or unreadable. One unreadable record stops no other limit.
fn readable(name: &LimitName, read: RedisResult<Option<PublishedLimit>>) -> RedisResult<Option<Limit>> {
    match read {
        Err(error) if is_unreadable(&error) => {
            tracing::warn!(
                "limit {name} is not refilled: its record cannot be read ({error}); run daemons of one version, and \
                 reload one of them"
            );
            Ok(None)
        }
        read => Ok(read?.map(|published| published.limit)),
    }
}
