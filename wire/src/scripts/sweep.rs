//! Removal of keys that a limit no longer needs, in slices.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use super::call_on_members;
use crate::{keyspace::ShardKeys, limit::Algorithm};

static SWEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sweep.lua")));
static SWEEP_STATES: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sweep_states.lua")));

/// Removes the record of a shard, and the indexes of its holds and permits. No script writes to the shard after it.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn drop_record(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<()> {
    Cmd::unlink(&[&keys.record, &keys.holds(), &keys.permits()]).query_async(connection).await
}

/// Removes up to `most` counters of a shard whose record no longer allows any. Returns their number; 0 while the record
/// allows counters.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn sweep_counters(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
) -> RedisResult<usize> {
    for index in [&keys.due, &keys.previous] {
        let list = Cmd::zrange(index, 0, most.saturating_sub(1) as isize);
        let members: Vec<Vec<u8>> = list.query_async(connection).await?;
        if members.is_empty() {
            continue;
        }
        return sweep_keys(connection, keys, &members).await;
    }
    Ok(0)
}

/// Removes the counters or keys at rest of `members`. Returns their number. While the record is of a token bucket, only
/// strays are removed: keys that neither expire nor stand in an index.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn sweep_keys(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    members: &[impl AsRef<[u8]>],
) -> RedisResult<usize> {
    let first = [&*keys.record, &keys.due, &keys.previous];
    call_on_members(&SWEEP, &first, keys, members).invoke_async(connection).await
}

/// Removes `states` of an algorithm by scripts alone, unless the record is of this algorithm.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub(crate) async fn sweep_scripted(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    algorithm: Algorithm,
    states: &[impl AsRef<str>],
) -> RedisResult<()> {
    let mut call = SWEEP_STATES.key(&*keys.record);
    for state in states {
        call.key(state.as_ref());
    }
    call.arg(algorithm.as_str()).invoke_async(connection).await
}

/// Removes the state of one bucket, unless the record is of `algorithm`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub(crate) async fn remove_state(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    algorithm: Algorithm,
    member: &str,
) -> RedisResult<()> {
    match algorithm {
        Algorithm::Concurrency => sweep_scripted(connection, keys, algorithm, &keys.permits_of(member)).await,
        Algorithm::TokenBucket => sweep_keys(connection, keys, &[member]).await.map(drop),
        _ => sweep_scripted(connection, keys, algorithm, &[keys.state(algorithm, member)]).await,
    }
}
