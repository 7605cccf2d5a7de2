//! Taking from a bucket, and every other operation on one.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, ScriptInvocation, aio::ConnectionLike};

use super::script;
use crate::{bucket::Operation, keyspace::ShardKeys, lane::Command, reply::Settled};

static SETTLE: LazyLock<Script> = script!("token_bucket.lua" "settle.lua", after "quick.lua");

/// The bare `DECRBY` of a counter: the tokens left, below 0 when there were fewer to take.
///
/// Right only for a bucket known to be below full; anything below 0 must be settled.
///
/// # Errors
/// Those of Redis. The command may have been carried out all the same.
pub async fn decrement(connection: &mut impl ConnectionLike, counter: &str, by: u64) -> RedisResult<i64> {
    Cmd::decr(counter, by).query_async(connection).await
}

/// Appends the command that takes `by` tokens from a counter unseen, see [`decrement`].
pub fn ask_decrement(out: &mut Vec<u8>, counter: &str, by: u64) {
    Command::Decrement { key: counter.as_bytes(), by }.encode(out);
}

/// Appends the command that asks what [`settle`] does, for the bucket whose state is at `state`.
///
/// The answer is one [`Number`](crate::lane::Reply::Number) where all of a take or a share was granted, for
/// [`Settled::from_headroom`], and [`Numbers`](crate::lane::Reply::Numbers) otherwise.
pub fn ask_settle(
    out: &mut Vec<u8>,
    keys: &ShardKeys,
    state: &str,
    operation: Operation,
    may_count: bool,
    doubt: u64,
) {
    let _ = (may_count, doubt);
    let (word, count) = operation.as_args();
    let (count, member) = (count.to_string(), keys.member(state));
    let keys = [&keys.record, &keys.due, &keys.former, state].map(str::as_bytes);
    let args = [member.as_bytes(), word.as_bytes(), count.as_bytes()];
    Command::Script { hash: SETTLE.get_hash(), keys: &keys, args: &args }.encode(out);
}

/// `operation` on the bucket `member` of the shard `keys`, in one step and exactly.
///
/// `may_count` allows a bucket at rest to become counting. `doubt` is how many tokens this worker has taken by bare
/// commands that may have met a full bucket.
///
/// # Errors
/// Those of Redis. The operation may have been carried out all the same.
pub async fn settle(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    member: &str,
    operation: Operation,
    may_count: bool,
    doubt: u64,
) -> RedisResult<Settled> {
    let _ = (may_count, doubt);
    invocation(keys, member, operation).invoke_async(connection).await
}

/// Gives `count` tokens back, if nobody has taken any since the bucket was known to be full at `full_at` (µs of Redis
/// `TIME`) unless that happens: whoever took has learned of the bucket without them. Of rates up to 100,000/s.
///
/// # Errors
/// Those of Redis. The tokens may have been given back all the same.
pub async fn put_back(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    member: &str,
    count: u64,
    full_at: u64,
) -> RedisResult<Settled> {
    invocation(keys, member, Operation::Refund(count)).arg(full_at).invoke_async(connection).await
}

/// The call that `operation` on the bucket `member` is.
fn invocation(keys: &ShardKeys, member: &str, operation: Operation) -> ScriptInvocation<'static> {
    let (word, count) = operation.as_args();
    let mut call = SETTLE.prepare_invoke();
    call.key(&keys.record).key(&keys.due).key(&keys.former).key(keys.counter(member));
    call.arg(member).arg(word).arg(count);
    call
}
