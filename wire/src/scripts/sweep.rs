//! Removing what a limit no longer needs, in slices.

use redis::{Cmd, RedisResult, aio::ConnectionLike};

use super::lazy;
use crate::{bucket::Operation, keyspace::ShardKeys};

/// Removes the record of a shard: from here on no script writes to it.
///
/// # Errors
/// Those of Redis. May be sent again without harm.
pub async fn drop_record(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<()> {
    Cmd::unlink(&keys.record).query_async(connection).await
}

/// Removes up to `most` counters of a shard whose record no longer allows any: how many were there.
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
        let counters: Vec<String> = members.iter().map(|member| keys.counter(member)).collect();
        // Counters first: should this be cut short, the index still knows what is left.
        redis::pipe().unlink(counters).ignore().zrem(index, &members).ignore().exec_async(connection).await?;
        return Ok(members.len());
    }
    Ok(0)
}

/// Removes the lazy buckets that one step of a scan of the keyspace finds; give `cursor` back until it is 0.
///
/// # Errors
/// Those of Redis. May be sent again without harm.
pub async fn sweep_lazy(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    cursor: &mut u64,
) -> RedisResult<()> {
    let found = scan_lazy(connection, keys, cursor).await?;
    if found.is_empty() {
        return Ok(());
    }
    Cmd::unlink(found).query_async(connection).await
}

/// Brings the lazy buckets that one step of a scan finds up to the present terms, so that each expires when it is
/// full under these; give `cursor` back until it is 0.
///
/// # Errors
/// Those of Redis. May be sent again without harm.
pub async fn touch_lazy(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    cursor: &mut u64,
) -> RedisResult<()> {
    for state in scan_lazy(connection, keys, cursor).await? {
        lazy(connection, keys, &state[keys.lazy.len()..], Operation::Refund(0)).await?;
    }
    Ok(())
}

/// One step of a scan for the states of lazy buckets.
async fn scan_lazy(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    cursor: &mut u64,
) -> RedisResult<Vec<String>> {
    // A name has no character that a pattern takes for more than itself.
    let mut scan = Cmd::new();
    scan.arg("SCAN").arg(*cursor).arg("MATCH").arg(format!("{}*", keys.lazy)).arg("COUNT").arg(1_000);
    let (next, found): (u64, Vec<String>) = scan.query_async(connection).await?;
    *cursor = next;
    Ok(found)
}
