//! Penalties: denied takes by key, and the blocks that follow from them.

use std::{sync::LazyLock, time::Duration};

use redis::{RedisResult, Script};

use crate::{
    keyspace::ShardKeys,
    least_rights::script,
    limit::{LimitName, Penalty},
    namespace::InNamespace,
};

static PENALTY: LazyLock<Script> = LazyLock::new(|| script(include_str!("penalty.lua")));

/// Adds denied takes of keys of a limit. Returns the keys that are to be blocked, each for its time. The caller blocks
/// them, by a [pause](super::pause). Does nothing if the limit is not published.
///
/// # Errors
/// Errors of Redis. The takes may have been added all the same, unless [`is_uncounted`](super::is_uncounted) says
/// otherwise.
pub async fn penalize<'k>(
    connection: &mut impl InNamespace,
    name: &LimitName,
    penalty: Penalty,
    denied: &'k [(String, u64)],
) -> RedisResult<Vec<(&'k str, Duration)>> {
    if denied.is_empty() {
        return Ok(Vec::new());
    }
    let namespace = connection.namespace();
    let mut call = PENALTY.prepare_invoke();
    call.key(ShardKeys::new(namespace, name, 0).record);
    for (key, _) in denied {
        call.key(namespace.penalty_of(name, key));
    }
    let micros = |time: Duration| time.as_micros() as u64;
    call.arg(penalty.after()).arg(micros(penalty.within())).arg(micros(penalty.block()));
    call.arg(penalty.factor()).arg(micros(penalty.longest()));
    for (_, takes) in denied {
        call.arg(*takes);
    }
    let blocks: Vec<u64> = call.invoke_async(connection).await?;
    let blocked = denied.iter().zip(blocks).filter(|(_, block)| *block > 0);
    Ok(blocked.map(|((key, _), block)| (key.as_str(), Duration::from_micros(block))).collect())
}
