//! The move of a key's tokens from the bucket of one plan to that of another.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script};

use super::{is_cross_slot, script, settle};
use crate::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName, OnChange},
    namespace::InNamespace,
};

static MOVE: LazyLock<Script> = script!(
    "schedule.lua" "rest.lua" "token_bucket.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "leaky_bucket.lua"
    "windows.lua" "fixed_window.lua" "sliding_window.lua" "sliding_counter.lua" "move.lua", after "take_packed.lua"
);

/// A change of a key's plan, and its two buckets.
#[derive(Clone, Copy, Debug)]
pub struct PlanMove<'a> {
    /// The limit, and not a plan of it.
    pub limit: &'a LimitName,
    /// The key.
    pub key: &'a str,
    /// The instant of the change, in µs of Redis `TIME`.
    pub at: u64,
    /// The time for which others may want to make the same change.
    pub keep: Duration,
    /// The effect of the change on tokens.
    pub on_change: OnChange,
    /// The bucket before.
    pub from: (Algorithm, &'a ShardKeys),
    /// The bucket from then on.
    pub to: (Algorithm, &'a ShardKeys),
}

/// Makes the change, unless another worker has made it. Returns `false` if its instant has not come yet.
///
/// # Errors
/// Errors of Redis. May be sent again: tokens may get lost then.
pub async fn move_tokens(connection: &mut impl InNamespace, change: PlanMove<'_>) -> RedisResult<bool> {
    let mark = connection.namespace().plan_mark(change.limit, change.at, change.key);
    let millis = u64::try_from(change.keep.as_millis()).unwrap_or(u64::MAX).clamp(1_000, 1 << 41);
    let mut call = MOVE.key(&mark);
    for (algorithm, keys) in [change.from, change.to] {
        let state = keys.state(algorithm, change.key);
        match algorithm {
            Algorithm::TokenBucket => call.key(state).key(&keys.record).key(&keys.due).key(&keys.previous),
            Algorithm::Gcra => call.key(state).key(&keys.record),
            _ => call.key(&keys.record).key(state),
        };
    }
    call.arg(change.at).arg(millis).arg(change.on_change.as_str());
    call.arg(change.from.0.as_str()).arg(change.to.0.as_str());
    match call.invoke_async::<(u8, u64)>(connection).await {
        Ok((outcome, _)) => Ok(outcome > 0),
        Err(error) if is_cross_slot(&error) => move_in_steps(connection, change, &mark, millis).await,
        Err(error) => Err(error),
    }
}

/// The same on a cluster, where the two buckets are in two hash slots. Two workers that do this at once lose tokens.
async fn move_in_steps(
    connection: &mut impl InNamespace,
    change: PlanMove<'_>,
    mark: &str,
    millis: u64,
) -> RedisResult<bool> {
    if super::now(connection).await? < change.at {
        return Ok(false);
    }
    if Cmd::exists(mark).query_async(connection).await? {
        return Ok(true);
    }
    let ((from, from_keys), (to, to_keys)) = (change.from, change.to);
    let before = settle(connection, from, from_keys, change.key, Operation::Peek(1), false, 0).await?;
    if before.tokens > 0 {
        settle(connection, from, from_keys, change.key, Operation::Take(before.tokens), false, 0).await?;
    }
    let after = settle(connection, to, to_keys, change.key, Operation::Peek(1), false, 0).await?;
    let kept = match change.on_change {
        OnChange::Keep => before.tokens.min(after.capacity),
        OnChange::Proportional => {
            let scaled = u128::from(before.tokens) * u128::from(after.capacity);
            u64::try_from(scaled / u128::from(before.capacity.max(1))).unwrap_or(after.capacity)
        }
        OnChange::Reset => after.capacity,
    };
    if kept < after.tokens {
        let too_many = Operation::Take(after.tokens - kept);
        settle(connection, to, to_keys, change.key, too_many, false, 0).await?;
    }
    Cmd::pset_ex(mark, "", millis).query_async::<()>(connection).await?;
    Ok(true)
}
