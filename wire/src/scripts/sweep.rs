//! Removing what a limit no longer needs, in slices.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::operate;
use crate::{
    bucket::Operation,
    keyspace::{ShardKeys, state_of, states_pattern},
    limit::{Algorithm, LimitName},
};

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

/// Removes every state of the limit `name` under `algorithm` that `node` has, of the shards from `first` on. Without an
/// index they are found by a scan of the keyspace, the same for all shards.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn sweep_states(
    connection: &mut impl ConnectionLike,
    node: &mut impl ConnectionLike,
    name: &LimitName,
    algorithm: Algorithm,
    first: u16,
) -> RedisResult<()> {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let found: Vec<String>;
        (found, cursor) = scan(node, name, from).await?;
        // Those of one shard are in one slot.
        let mut states: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for key in &found {
            if let Some((shard, _)) = state_of(name, algorithm, key).filter(|(shard, _)| *shard >= first) {
                states.entry(shard).or_default().push(key);
            }
        }
        for states in states.into_values() {
            Cmd::unlink(states).exec_async(connection).await?;
        }
    }
    Ok(())
}

/// Brings every state of the limit `name` under `algorithm` that `node` has up to the present terms, so that each expires
/// when it is needed no longer under these.
///
/// # Errors
/// Those of Redis. May be called again without harm.
pub async fn touch_states(
    connection: &mut impl ConnectionLike,
    node: &mut impl ConnectionLike,
    name: &LimitName,
    algorithm: Algorithm,
) -> RedisResult<()> {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let found: Vec<String>;
        (found, cursor) = scan(node, name, from).await?;
        for (shard, member) in found.iter().filter_map(|key| state_of(name, algorithm, key)) {
            let keys = ShardKeys::new(name, shard);
            operate(connection, algorithm, &keys, member, Operation::Refund(0), false, 0).await?;
        }
    }
    Ok(())
}

/// One step of a scan for the states of a limit, and where the next one begins: as many keys as are looked at, and
/// removed, in a fraction of a millisecond.
async fn scan(
    node: &mut impl ConnectionLike,
    name: &LimitName,
    from: u64,
) -> RedisResult<(Vec<String>, Option<u64>)> {
    let mut scan = Cmd::new();
    scan.arg("SCAN").arg(from).arg("MATCH").arg(states_pattern(name)).arg("COUNT").arg(500);
    let (next, found): (u64, _) = scan.query_async(node).await?;
    Ok((found, (next > 0).then_some(next)))
}
