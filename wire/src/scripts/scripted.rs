//! The algorithms that need nothing but their script, and one way to all algorithms there are.

use std::sync::LazyLock;

use redis::{RedisResult, Script, aio::ConnectionLike};

use super::{script, settle};
use crate::{bucket::Operation, keyspace::ShardKeys, lane::Command, limit::Algorithm, reply::Settled};

static LAZY_TOKEN_BUCKET: LazyLock<Script> =
    script!("state.lua" "lazy.lua" "lazy_token_bucket.lua" "scripted.lua", after "light.lua");
static LEAKY_BUCKET: LazyLock<Script> =
    script!("state.lua" "leaky_bucket.lua" "scripted.lua", after "light.lua");
static FIXED_WINDOW: LazyLock<Script> =
    script!("state.lua" "windows.lua" "fixed_window.lua" "scripted.lua", after "light.lua");
static SLIDING_WINDOW: LazyLock<Script> =
    script!("windows.lua" "sliding_window.lua" "scripted.lua", after "light.lua");
static SLIDING_COUNTER: LazyLock<Script> =
    script!("state.lua" "windows.lua" "sliding_counter.lua" "scripted.lua", after "light.lua");

/// `operation` on the bucket `member` of the shard `keys` under `algorithm`, in one step and exactly.
///
/// `may_count` and `doubt` as of [`settle`]; only a token bucket and GCRA regard them.
///
/// # Errors
/// Those of Redis. The operation may have been carried out all the same.
pub async fn operate(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    keys: &ShardKeys,
    member: &str,
    operation: Operation,
    may_count: bool,
    doubt: u64,
) -> RedisResult<Settled> {
    let Some(script) = script_of(algorithm) else {
        return settle::operate(connection, algorithm, keys, member, operation, may_count, doubt).await;
    };
    let (word, count) = operation.as_args();
    let mut call = script.prepare_invoke();
    call.key(&keys.record).key(keys.state(algorithm, member));
    call.arg(word).arg(count).arg(operation.longest()).invoke_async(connection).await
}

/// Appends the command that [`operate`] sends, for the bucket whose state is at `state`.
pub fn ask(
    out: &mut Vec<u8>,
    algorithm: Algorithm,
    keys: &ShardKeys,
    state: &str,
    operation: Operation,
    may_count: bool,
    doubt: u64,
) {
    let Some(script) = script_of(algorithm) else {
        return settle::ask(out, algorithm, keys, state, operation, may_count, doubt);
    };
    let (word, count) = operation.as_args();
    let (count, longest) = (count.to_string(), operation.longest().map(|longest| longest.to_string()));
    let keys = [&keys.record, state].map(str::as_bytes);
    let args = [word.as_bytes(), count.as_bytes(), longest.as_deref().unwrap_or_default().as_bytes()];
    let args = &args[..if longest.is_some() { 3 } else { 2 }];
    Command::Script { hash: script.get_hash(), keys: &keys, args }.encode(out);
}

/// The script that is all an algorithm needs; none of those whose buckets may be at rest, which have one script.
fn script_of(algorithm: Algorithm) -> Option<&'static Script> {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra => None,
        Algorithm::LazyTokenBucket => Some(&LAZY_TOKEN_BUCKET),
        Algorithm::LeakyBucket => Some(&LEAKY_BUCKET),
        Algorithm::FixedWindow => Some(&FIXED_WINDOW),
        Algorithm::SlidingWindow => Some(&SLIDING_WINDOW),
        Algorithm::SlidingCounter => Some(&SLIDING_COUNTER),
    }
}
