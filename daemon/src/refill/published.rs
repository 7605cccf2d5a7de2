//! Reads the published limits, by whichever daemon or program they were published.

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

use super::{shard::Shard, timeouts::with_timeout};
use crate::publish::{MAX_CONCURRENT, is_unreadable};

/// The limits and their shards to be refilled, and the generation that published them.
pub(super) struct PublishedShards {
    pub(super) generation: u64,
    /// The limits that were read, if these are not all: all others are as they were.
    pub(super) changed: Option<BTreeSet<LimitName>>,
    pub(super) registered: BTreeSet<LimitName>,
    /// The registered limits that this version can read.
    pub(super) limits: Vec<Limit>,
    /// The names of limits that code has defined.
    pub(super) defined: BTreeSet<LimitName>,
    pub(super) shards: Vec<Shard>,
}

/// Reads the generation and all limits, or those that have changed since the generation `known`; 0 if none is known.
pub(super) async fn read_published(mut connection: Connection, known: u64) -> RedisResult<PublishedShards> {
    // The generation first: limits published meanwhile have a higher one, and are read again.
    let generation = with_timeout(scripts::generation(&mut connection)).await?.unwrap_or(0);
    let changed = match known {
        1.. if known < generation => {
            with_timeout(scripts::changed_limits(&mut connection, known, generation)).await?
        }
        _ => None,
    };
    let changed: Option<BTreeSet<LimitName>> = changed.map(|names| names.into_iter().collect());
    let registered: BTreeSet<LimitName> = match &changed {
        Some(names) => names.clone(),
        None => with_timeout(scripts::published_limits(&mut connection)).await?.into_keys().collect(),
    };
    let reading = registered.clone().into_iter().map(|name| {
        let mut connection = connection.clone();
        async move { readable(&name, with_timeout(scripts::read_limit(&mut connection, &name)).await) }
    });
    let read: Vec<_> = stream::iter(reading).buffered(MAX_CONCURRENT).try_collect().await?;
    let read: Vec<PublishedLimit> = read.into_iter().flatten().collect();
    let defined = read.iter().filter(|read| read.expires.is_some()).map(|read| read.limit.name).collect();
    let limits: Vec<Limit> = read.into_iter().map(|read| read.limit).collect();
    Ok(PublishedShards {
        generation,
        changed,
        registered,
        defined,
        shards: limits.iter().flat_map(|limit| Shard::of(connection.namespace(), limit)).collect(),
        limits,
    })
}

/// A limit as published; `None` if its record is gone or unreadable. One unreadable record stops no other limit.
fn readable(
    name: &LimitName,
    read: RedisResult<Option<PublishedLimit>>,
) -> RedisResult<Option<PublishedLimit>> {
    match read {
        Err(error) if is_unreadable(&error) => {
            tracing::warn!(
                "limit {name} is not refilled: its record cannot be read ({error}); run daemons of one version, and \
                 reload one of them"
            );
            Ok(None)
        }
        read => read,
    }
}
