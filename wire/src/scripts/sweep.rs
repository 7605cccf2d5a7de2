//! Removing what a limit no longer needs, in slices.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::lazy;
use crate::{bucket::Operation, keyspace::ShardKeys};

static SWEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sweep.lua")));

/// Removes the record of a shard: from here on no script writes to it.
///
/// # Errors
/// Those of Redis. May be sent again without harm.
pub async fn drop_record(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<()> {
    Cmd::unlink(&keys.record).query_async(connection).await
}

/// Removes up to `most` counters of a shard whose record no longer allows any: how many buckets there were, and 0 while
/// the record allows them.
///
/// # Errors
/// Those of Redis. May be sent again without harm.
pub async fn sweep_counters(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
) -> RedisResult<usize> {
    for index in [&keys.due, &keys.former] {
        let list = Cmd::zrange(index, 0, most.saturating_sub(1) as isize);
        let members: Vec<String> = list.query_async(connection).await?;
        if members.is_empty() {
            continue;
        }
        let mut call = SWEEP.prepare_invoke();
        call.key(&keys.record).key(index);
        for member in &members {
            call.key(keys.counter(member));
        }
        return call.arg(keys.counters.len()).invoke_async(connection).await;
    }
    Ok(0)
}

/// Removes every lazy bucket of a shard; without an index they are found by a scan of the keyspace.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn sweep_lazy(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<()> {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let found;
        (found, cursor) = scan_lazy(connection, keys, from).await?;
        if !found.is_empty() {
            Cmd::unlink(found).exec_async(connection).await?;
        }
    }
    Ok(())
}

/// Brings every lazy bucket of a shard up to the present terms, so that each expires when it is full under these.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn touch_lazy(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<()> {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let found;
        (found, cursor) = scan_lazy(connection, keys, from).await?;
        for state in found {
            lazy(connection, keys, &state[keys.lazy.len()..], Operation::Refund(0)).await?;
        }
    }
    Ok(())
}

/// One step of a scan for the states of lazy buckets, and where the next one begins.
async fn scan_lazy(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    from: u64,
) -> RedisResult<(Vec<String>, Option<u64>)> {
    // A name has no character that a pattern takes for more than itself.
    let mut scan = Cmd::new();
    scan.arg("SCAN").arg(from).arg("MATCH").arg(format!("{}*", keys.lazy)).arg("COUNT").arg(1_000);
    let (next, found): (u64, _) = scan.query_async(connection).await?;
    Ok((found, (next > 0).then_some(next)))
}
