//! Taking from a bucket, and every other operation on one.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Script, ScriptInvocation, aio::ConnectionLike};

use super::script;
use crate::{bucket::Operation, keyspace::ShardKeys, lane::Command, limit::Algorithm, reply::Settled};

static SETTLE: LazyLock<Script> = script!("rest.lua" "token_bucket.lua" "settle.lua", after "quick.lua");

/// The bare `DECRBY` of a counter: the tokens left, below 0 when there were fewer to take.
///
/// Right only for a bucket known to be counting and below full; anything below 0 must be settled.
///
/// # Errors
/// Those of Redis, see [`is_not_a_counter`](super::is_not_a_counter). After any other one, the command may have been
/// carried out all the same.
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
    ask(out, Algorithm::TokenBucket, keys, state, operation, may_count, doubt);
}

/// The same under an algorithm that this script is for.
pub(super) fn ask(
    out: &mut Vec<u8>,
    algorithm: Algorithm,
    keys: &ShardKeys,
    state: &str,
    operation: Operation,
    may_count: bool,
    doubt: u64,
) {
    let (word, count) = operation.as_args();
    let (count, doubt_text) = (count.to_string(), doubt.to_string());
    let trusts = may_count;
    let may_count: &[u8] = if may_count { b"1" } else { b"0" };
    let keys = [state, &keys.record, &keys.due, &keys.former].map(str::as_bytes);
    let args = [word.as_bytes(), count.as_bytes(), may_count, doubt_text.as_bytes(), b"all"];
    let given = match operation {
        Operation::Lease(_) => 5,
        // Whoever does not trust the terms it knows cannot tell tokens from a time.
        _ if !trusts && algorithm == Algorithm::TokenBucket => 5,
        _ if doubt > 0 => 4,
        _ => 3,
    };
    let keys = &keys[..number_of_keys(algorithm)];
    Command::Script { hash: SETTLE.get_hash(), keys, args: &args[..given] }.encode(out);
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
    operate(connection, Algorithm::TokenBucket, keys, member, operation, may_count, doubt).await
}

/// The same under an algorithm that this script is for.
pub(super) async fn operate(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    keys: &ShardKeys,
    member: &str,
    operation: Operation,
    may_count: bool,
    doubt: u64,
) -> RedisResult<Settled> {
    let (word, count) = operation.as_args();
    let mut call = invocation(algorithm, keys, member);
    call.arg(word).arg(count).arg(u8::from(may_count)).arg(doubt).arg("all");
    call.invoke_async(connection).await
}

/// A call for the bucket `member`, its arguments still to come.
pub(super) fn invocation(algorithm: Algorithm, keys: &ShardKeys, member: &str) -> ScriptInvocation<'static> {
    let mut call = SETTLE.prepare_invoke();
    let state = keys.state(algorithm, member);
    for key in [&state, &keys.record, &keys.due, &keys.former].into_iter().take(number_of_keys(algorithm)) {
        call.key(key);
    }
    call
}

/// The number of keys tells the script the algorithm.
const fn number_of_keys(algorithm: Algorithm) -> usize {
    if matches!(algorithm, Algorithm::TokenBucket) { 4 } else { 2 }
}
