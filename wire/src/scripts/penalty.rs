//! Penalties: denied takes by key, and the blocks that follow from them.

use std::{sync::LazyLock, time::Duration};

use futures_util::stream::{self, StreamExt};
use redis::{RedisResult, Script};

use super::block;
use crate::{
    keyspace::ShardKeys,
    least_rights::script,
    limit::{LimitName, Penalty},
    namespace::InNamespace,
};

/// Most blocks in flight.
const MOST_BLOCKING: usize = 16;

static PENALTY: LazyLock<Script> = LazyLock::new(|| script(include_str!("penalty.lua")));

/// Adds denied takes of keys of a limit. Returns the keys that are to be blocked, each for its time. The caller
/// [blocks](super::block) them, and then says so by a further call, with 0 denied takes of each. Does nothing if the
/// limit is not published.
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

/// Adds denied takes of keys of a limit, and blocks the keys that have had too many. Tells `note` of each block whether
/// there was room for it. Does nothing if the limit is not published.
///
/// # Errors
/// As [`penalize`].
pub async fn block_denied<C: InNamespace + Clone>(
    connection: &C,
    name: &LimitName,
    penalty: Penalty,
    denied: &[(String, u64)],
    mut note: impl FnMut(bool),
) -> RedisResult<()> {
    let blocked = penalize(&mut connection.clone(), name, penalty, denied).await?;
    let live = name.live();
    let mut blocking = Vec::with_capacity(blocked.len());
    for (key, time) in blocked {
        let (mut connection, key) = (connection.clone(), key.to_owned());
        blocking.push(async move {
            let reply = block(&mut connection, &live, &key, time).await;
            (key, reply)
        });
    }
    let mut blocking = stream::iter(blocking).buffer_unordered(MOST_BLOCKING);
    let mut done = Vec::new();
    while let Some((key, reply)) = blocking.next().await {
        // Without an answer, Redis tells the block again.
        if let Ok(reply) = reply {
            note(reply.left.is_some());
            done.push((key, 0));
        }
    }
    // An error after the count is none of the count.
    let _ = penalize(&mut connection.clone(), name, penalty, &done).await;
    Ok(())
}
