//! Holds: tokens that are taken at an estimate, and settled once at what was used.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script, ScriptInvocation, aio::ConnectionLike};

use super::{
    hold_reply::{DueHolds, HoldReply},
    script,
};
use crate::{keyspace::ShardKeys, limit::Algorithm};

static HOLD: LazyLock<Script> = script!(
    "schedule.lua" "rest.lua" "token_bucket.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "leaky_bucket.lua"
    "windows.lua" "fixed_window.lua" "sliding_window.lua" "sliding_counter.lua" "fair_shares.lua" "hold.lua"
);
static DUE_HOLDS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("due_holds.lua")));

/// A hold, and the bucket whose tokens it has.
#[derive(Clone, Copy, Debug)]
pub struct HoldOf<'a> {
    /// The algorithm of its limit.
    pub algorithm: Algorithm,
    /// The keys of its shard.
    pub keys: &'a ShardKeys,
    /// The bucket in it.
    pub member: &'a str,
    /// Its ID, without a colon. No two holds of a shard have the same.
    pub id: &'a str,
    /// Tokens taken, or to take.
    pub tokens: u64,
    /// Whether Redis remembers it.
    pub is_remembered: bool,
}

/// The tokens used of a hold, and the bounds of its settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Tokens used.
    pub used: u64,
    /// The most debt that a charge may leave, where it is more than the tokens held.
    pub max_debt: u64,
    /// The longest time for which a worker has tokens in hand, see [`Limit::in_hand_for`](crate::limit::Limit).
    pub in_hand_for: Duration,
}

/// Takes the tokens of `hold`, all or nothing, and remembers it for `ttl`.
///
/// # Errors
/// Errors of Redis. The tokens may have been taken all the same; then they are put back at their time.
pub async fn reserve_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    ttl: Duration,
) -> RedisResult<HoldReply> {
    invocation("reserve", hold, [micros(ttl), 0, 0]).invoke_async(connection).await
}

/// Remembers `hold` for `ttl`. Its tokens were taken by another call.
///
/// # Errors
/// Errors of Redis. May be sent again without harm within `ttl`.
pub async fn remember_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    ttl: Duration,
) -> RedisResult<HoldReply> {
    invocation("remember", hold, [micros(ttl), 0, 0]).invoke_async(connection).await
}

/// Settles `hold`: puts back what was not used, or charges what was used beyond it.
///
/// # Errors
/// Errors of Redis. May be sent again without harm for 60 s.
pub async fn settle_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    used: Use,
) -> RedisResult<HoldReply> {
    let Use { used, max_debt, in_hand_for } = used;
    invocation("settle", hold, [used, max_debt, micros(in_hand_for)]).invoke_async(connection).await
}

/// Puts the tokens of a remembered `hold` back.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn abandon_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    in_hand_for: Duration,
) -> RedisResult<HoldReply> {
    invocation("abandon", hold, [0, 0, micros(in_hand_for)]).invoke_async(connection).await
}

/// Up to `most` open holds of a shard whose time to live is over.
///
/// # Errors
/// Errors of Redis.
pub async fn due_holds(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
) -> RedisResult<DueHolds> {
    DUE_HOLDS.key(keys.holds()).arg(most).invoke_async(connection).await
}

/// The number of open holds of a shard that are not over at `now`, in µs of Redis `TIME`. Holds that Redis does not remember
/// are not among them.
///
/// # Errors
/// Errors of Redis.
pub async fn count_holds(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    now: u64,
) -> RedisResult<u64> {
    Cmd::zcount(keys.holds(), format!("({now}"), "+inf").query_async(connection).await
}

/// A call of `hold.lua`. The operation decides the meaning of the last three arguments, `numbers`.
fn invocation(operation: &str, hold: HoldOf<'_>, numbers: [u64; 3]) -> ScriptInvocation<'static> {
    let HoldOf { algorithm, keys, member, id, tokens, is_remembered } = hold;
    let mut call = HOLD.prepare_invoke();
    let state = keys.stored(algorithm, member);
    match algorithm {
        Algorithm::TokenBucket => call.key(state).key(&keys.record).key(&keys.due).key(&keys.previous),
        Algorithm::Gcra => call.key(state).key(&keys.record),
        _ => call.key(&keys.record).key(state),
    };
    call.key(keys.holds()).key(keys.settled(id)).arg(algorithm.as_str()).arg(operation);
    let entry = if is_remembered { format!("{id}:{tokens}:{member}") } else { String::new() };
    call.arg(entry).arg(tokens);
    for number in numbers {
        call.arg(number);
    }
    if algorithm.has_parts() {
        call.arg(member);
    }
    call
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}
