//! Settling: every operation on one bucket by script, under any algorithm.

use std::{borrow::Cow, sync::LazyLock};

use redis::{Cmd, RedisResult, Script, ScriptInvocation, aio::ConnectionLike};

use super::{InDoubt, permits::peek_as_tokens, script};
use crate::{
    bucket::{Operation, Reservation},
    keyspace::ShardKeys,
    least_rights::Call,
    limit::Algorithm,
    pipeline::RedisCommand,
    reply::Settled,
};

static SETTLE: LazyLock<Script> =
    script!("schedule.lua" "rest.lua" "token_bucket.lua" "settle.lua", after "settle_packed.lua");
static GCRA: LazyLock<Script> = script!("schedule.lua" "rest.lua" "token_bucket.lua" "settle.lua", after "gcra_quick.lua" "settle_packed.lua");
static LAZY_TOKEN_BUCKET: LazyLock<Script> = script!("schedule.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "script_only.lua", after "rated_quick.lua" "take_packed.lua");
static LEAKY_BUCKET: LazyLock<Script> = script!("schedule.lua" "state.lua" "leaky_bucket.lua" "script_only.lua", after "rated_quick.lua" "take_packed.lua");
static FIXED_WINDOW: LazyLock<Script> = script!("windows.lua" "fixed_window.lua" "script_only.lua", after "fixed_window_quick.lua" "take_packed.lua");
static SLIDING_WINDOW: LazyLock<Script> = script!("windows.lua" "sliding_window.lua" "script_only.lua", after "sliding_window_quick.lua" "take_packed.lua");
static SLIDING_COUNTER: LazyLock<Script> = script!("state.lua" "windows.lua" "sliding_counter.lua" "script_only.lua", after "sliding_counter_quick.lua" "take_packed.lua");
pub(super) static FAIR_SHARES: LazyLock<Script> =
    script!("fair_shares.lua" "fair_shares_only.lua", after "fair_shares_packed.lua");

/// The bare `DECRBY` of a counter: the tokens left, below 0 when there were fewer to take.
///
/// Right only for a bucket that is known to be counting and below full. A result below 0 must be settled.
///
/// # Errors
/// Errors of Redis, see [`is_not_a_counter`](super::is_not_a_counter). After any other one, the command may have been
/// carried out all the same.
pub async fn decrement(connection: &mut impl ConnectionLike, counter: &str, by: u64) -> RedisResult<i64> {
    Cmd::decr(counter, by).query_async(connection).await
}

/// Appends the command of [`decrement`].
pub fn encode_decrement(out: &mut Vec<u8>, counter: &str, by: u64) {
    RedisCommand::Add { key: counter.as_bytes(), by: -(by as i64) }.encode(out);
}

/// Carries `operation` out on the bucket `member` of the shard `keys` under `algorithm`, in one step and exactly.
/// Permits are only peeked at: the tokens of the reply are the free places.
///
/// `may_count` allows a bucket at rest to become counting. `in_doubt` are tokens of this worker that the bucket may not miss.
/// Token buckets and GCRA alone use the two. For a fixed window, `in_doubt` are tokens that it has counted, though they were
/// not left.
///
/// # Errors
/// Errors of Redis. The operation may have been carried out all the same.
pub async fn settle(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    keys: &ShardKeys,
    member: &str,
    operation: Operation,
    may_count: bool,
    in_doubt: Option<InDoubt>,
) -> RedisResult<Settled> {
    if algorithm.has_permits() {
        return peek_as_tokens(connection, keys, member, operation).await;
    }
    let (word, count) = operation.as_args();
    let mut call = invocation(algorithm, keys, member);
    call.arg(word).arg(count);
    if algorithm.has_parts() {
        call.arg(member);
    } else if has_own_script(algorithm) {
        let uncovered = in_doubt.filter(|_| algorithm == Algorithm::FixedWindow);
        call.arg(operation.bound().or(uncovered.map(|uncovered| uncovered.tokens)));
    } else {
        let doubt = in_doubt.unwrap_or_default();
        let (fifth, sixth) = fifth_and_sixth(operation, doubt);
        call.arg(u8::from(may_count)).arg(operation.bound().unwrap_or(doubt.tokens)).arg(fifth);
        call.arg((sixth > 0).then_some(sixth));
    }
    call.invoke_async(connection).await
}

/// Appends the command of [`settle`] for the bucket whose state is at `state`.
///
/// Where all of a take or a share is granted, every algorithm but fair shares may reply with one
/// [`Number`](crate::pipeline::Reply::Number), for [`Settled::from_number`]. Other replies are
/// [`Numbers`](crate::pipeline::Reply::Numbers).
///
/// With `least_rights`, the record is an argument of the script: the user may not write it, see
/// [`Pipelines::has_least_rights`](crate::pipeline::Pipelines::has_least_rights).
#[allow(clippy::too_many_arguments, reason = "all of them are words of one command")]
pub fn encode_settle(
    out: &mut Vec<u8>,
    algorithm: Algorithm,
    keys: &ShardKeys,
    state: &str,
    operation: Operation,
    may_count: bool,
    in_doubt: Option<InDoubt>,
    least_rights: bool,
) {
    let (word, count) = operation.as_args();
    let count = count.to_string();
    let doubt = in_doubt.unwrap_or_default();
    let number = operation.bound().unwrap_or(doubt.tokens).to_string();
    let (fifth, sixth) = fifth_and_sixth(operation, doubt);
    let last = sixth.to_string();
    let flag: &[u8] = if may_count { b"1" } else { b"0" };
    let (word, count, number) = (word.as_bytes(), count.as_bytes(), number.as_bytes());
    let of_parts = [word, count, keys.member(state).as_bytes()];
    let by_settle = [word, count, flag, number, fifth.as_bytes(), last.as_bytes()];
    let by_own_script = [word, count, number];
    let quickly = [word, count, b"quick"];
    let args: &[&[u8]] = match operation {
        _ if algorithm.has_parts() => &of_parts,
        Operation::Reserve(_) | Operation::Charge { .. } if has_own_script(algorithm) => &by_own_script,
        _ if algorithm == Algorithm::FixedWindow && in_doubt.is_some() => &by_own_script,
        Operation::Take(1..) | Operation::Share(1..) | Operation::Lease(1..) if has_own_script(algorithm) => {
            &quickly
        }
        _ if has_own_script(algorithm) => &by_own_script[..2],
        _ if sixth > 0 => &by_settle,
        Operation::Lease(_) | Operation::Charge { .. } | Operation::Reserve(_) => &by_settle[..5],
        // A worker that does not trust its terms cannot compute tokens from a headroom.
        _ if !may_count && algorithm == Algorithm::TokenBucket => &by_settle[..5],
        _ if in_doubt.is_some() => &by_settle[..4],
        _ => &by_settle[..3],
    };
    let stored = algorithm.has_parts().then(|| keys.stored(algorithm, ""));
    let (keys, count) = keys_of(algorithm, keys, stored.as_deref().unwrap_or(state));
    let keys = keys.map(str::as_bytes);
    let (hash, keys) = (script_of(algorithm).get_hash(), &keys[..count]);
    match least_rights.then(|| Call::new(hash.as_bytes(), keys, args)).flatten() {
        Some(call) => {
            let args: Vec<&[u8]> = call.args.iter().map(|arg| &arg[..]).collect();
            RedisCommand::Script { hash: call.hash(), keys: &call.keys, args: &args }.encode(out);
        }
        None => RedisCommand::Script { hash, keys, args }.encode(out),
    }
}

/// The last two arguments of `settle.lua`. The sixth is left out if it is 0.
fn fifth_and_sixth(operation: Operation, doubt: InDoubt) -> (Cow<'static, str>, u64) {
    match operation {
        Operation::Reserve(Reservation { in_hand_for, forfeit, .. }) => {
            (in_hand_for.to_string().into(), forfeit)
        }
        _ => ("all".into(), doubt.full_at),
    }
}

/// A call for the bucket `member`, its arguments still to come.
pub(super) fn invocation(algorithm: Algorithm, keys: &ShardKeys, member: &str) -> ScriptInvocation<'static> {
    let mut call = script_of(algorithm).prepare_invoke();
    let state = keys.stored(algorithm, member);
    let (keys, count) = keys_of(algorithm, keys, &state);
    for key in &keys[..count] {
        call.key(*key);
    }
    call
}

/// The keys of the algorithm's script, and how many of them count. `settle.lua` tells GCRA by their number.
fn keys_of<'k>(algorithm: Algorithm, keys: &'k ShardKeys, state: &'k str) -> ([&'k str; 4], usize) {
    match algorithm {
        Algorithm::TokenBucket => ([state, &keys.record, &keys.due, &keys.previous], 4),
        Algorithm::Gcra => ([state, &keys.record, "", ""], 2),
        _ => ([&keys.record, state, "", ""], 2),
    }
}

fn has_own_script(algorithm: Algorithm) -> bool {
    !matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra)
}

fn script_of(algorithm: Algorithm) -> &'static Script {
    match algorithm {
        Algorithm::TokenBucket => &SETTLE,
        Algorithm::Gcra => &GCRA,
        Algorithm::LazyTokenBucket => &LAZY_TOKEN_BUCKET,
        Algorithm::LeakyBucket => &LEAKY_BUCKET,
        Algorithm::FixedWindow => &FIXED_WINDOW,
        Algorithm::SlidingWindow => &SLIDING_WINDOW,
        Algorithm::SlidingCounter => &SLIDING_COUNTER,
        Algorithm::FairShares => &FAIR_SHARES,
        // No caller has tokens of it: any script refuses its record as one of another algorithm.
        Algorithm::Concurrency => &FIXED_WINDOW,
    }
}
