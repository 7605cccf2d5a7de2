//! Takes of several buckets at once, all or nothing.

use std::sync::LazyLock;

use redis::{ErrorKind, ParsingError, RedisError, RedisResult, Script, ServerErrorKind, aio::ConnectionLike};

use super::script;
use crate::{keyspace::ShardKeys, limit::Algorithm, reply::Settled};

static TAKE_ALL: LazyLock<Script> = script!(
    "schedule.lua" "rest.lua" "token_bucket.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "leaky_bucket.lua"
    "windows.lua" "fixed_window.lua" "sliding_window.lua" "sliding_counter.lua" "take_all.lua", after "take_packed.lua"
);

/// Bytes of the reply for one bucket: 8 doubles.
const REPLY: usize = 64;

/// A take of one of several buckets.
#[derive(Clone, Copy, Debug)]
pub struct BucketTake<'a> {
    /// The algorithm of its limit.
    pub algorithm: Algorithm,
    /// The keys of its shard.
    pub keys: &'a ShardKeys,
    /// The bucket in it.
    pub member: &'a str,
    /// Tokens to take.
    pub count: u64,
    /// Whether its denial holds. A bucket whose denial does not hold is taken from if all enforced ones allow and it
    /// has the tokens.
    pub enforced: bool,
}

/// Carries out `takes`, all or nothing, in one step and exactly. Returns the reply of each bucket, in order. If not all
/// enforced buckets allow, the replies are those of peeks. No bucket may be named twice.
///
/// # Errors
/// Errors of Redis. The takes may have been carried out all the same, but all or none. In a cluster, buckets whose keys
/// are not on one node are refused: see [`is_cross_slot`].
pub async fn take_all(
    connection: &mut impl ConnectionLike,
    takes: &[BucketTake<'_>],
) -> RedisResult<Vec<Settled>> {
    let mut call = TAKE_ALL.prepare_invoke();
    for &BucketTake { algorithm, keys, member, count, enforced } in takes {
        let state = keys.state(algorithm, member);
        match algorithm {
            Algorithm::TokenBucket => call.key(state).key(&keys.record).key(&keys.due).key(&keys.previous),
            Algorithm::Gcra => call.key(state).key(&keys.record),
            _ => call.key(&keys.record).key(state),
        };
        call.arg(algorithm.as_str()).arg(count).arg(u8::from(enforced));
    }
    let packed: Vec<u8> = call.invoke_async(connection).await?;
    let (replies, rest) = packed.as_chunks::<REPLY>();
    if !rest.is_empty() || replies.len() != takes.len() {
        return Err(
            ParsingError::from(format!("{} bytes are no reply of {}", packed.len(), takes.len())).into()
        );
    }
    replies.iter().map(|reply| Ok(Settled::try_from(unpacked(reply))?)).collect()
}

/// The whole numbers of one bucket's reply.
fn unpacked(reply: &[u8; REPLY]) -> Vec<i64> {
    let (doubles, _) = reply.as_chunks();
    // Whole, and below 2^53.
    doubles.iter().map(|double| f64::from_le_bytes(*double) as i64).collect()
}

/// Whether Redis refused a script because its keys are in several hash slots of the cluster. Nothing was done.
pub fn is_cross_slot(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot)
}
