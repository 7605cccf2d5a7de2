//! The move of a key's tokens from the bucket of one plan to that of another.

mod cluster;
mod steps;

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script};

use super::{is_cross_slot, read_limit, script};
use crate::{
    keyspace::{ShardKeys, shard_of},
    limit::{Algorithm, Limit, LimitName},
    namespace::InNamespace,
};

use cluster::{TURN, move_in_steps};
pub use steps::{PlanBucket, PlanMove};
use steps::{Steps, numbers, steps};

static MOVE: LazyLock<Script> = script!(
    "schedule.lua" "rest.lua" "token_bucket.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "leaky_bucket.lua"
    "windows.lua" "fixed_window.lua" "sliding_window.lua" "sliding_counter.lua" "move.lua", after "take_packed.lua"
);

/// The mark of a move stays for this long after the last worker that wants to make it.
const MARK_STAYS: Duration = Duration::from_secs(5);
/// Attempts while other workers move the same tokens.
const ATTEMPTS: usize = 5;

/// Makes the changes that no worker has made, unless the last one is long past. Returns `false` if its instant has not come
/// yet, or if another worker is making them: call again after a ms.
///
/// # Errors
/// Errors of Redis. May be sent again: tokens may get lost then.
pub async fn move_tokens(connection: &mut impl InNamespace, change: PlanMove<'_>) -> RedisResult<bool> {
    let [_, .., (at, Ok(to))] = change.spans else { return Ok(true) };
    // A bucket that was left alone for the longest time that fills one is full.
    let fills = change.limit.plans_fill.max(to.0.fill_time());
    let key = connection.namespace().plan_mark(&change.limit.name, change.key);
    let mut now = change.now;
    for _ in 0..ATTEMPTS {
        let matters_for =
            at.saturating_add(fills).saturating_add(TURN.as_micros() as u64).saturating_sub(now);
        if matters_for == 0 {
            return Ok(true);
        }
        let keep = Duration::from_micros(matters_for) + MARK_STAYS;
        let millis = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX).min(1 << 41);
        let held: Option<String> = Cmd::get(&key).query_async(connection).await?;
        let held = held.unwrap_or_default();
        let made = held.split_once(' ').and_then(|(at, name)| Some((at.parse::<u64>().ok()?, name)));
        if made.is_some_and(|(made, _)| made >= *at) {
            return Ok(true);
        }
        let found = match made {
            Some((_, name)) => find(connection, &change, name).await?,
            None => None,
        };
        let found = found.as_ref().map(|(limit, keys)| (limit, keys));
        let marked = made.map(|(at, _)| at).zip(found);
        let steps =
            steps(change.spans, now.saturating_sub(fills), fills, *to, marked, change.limit.on_change);
        if steps.behind.is_empty() {
            // The change is long past, but a worker may still be making it in steps.
            let turn = connection.namespace().plan_turn(&change.limit.name, change.key);
            return Cmd::exists(turn).query_async(connection).await.map(|is_taken: bool| !is_taken);
        }
        let mark = format!("{at} {}", to.0.name);
        let (outcome, then) =
            match move_at_once(connection, &change, &steps, [&key, &held, &mark], millis).await {
                Err(error) if is_cross_slot(&error) => {
                    move_in_steps(connection, &change, &steps, [&key, &held, &mark], millis).await?
                }
                told => told?,
            };
        match outcome {
            0 => return Ok(false),
            1 => return Ok(true),
            _ => now = now.max(then),
        }
    }
    Err(ParsingError::from("the tokens of the key are moved all the time").into())
}

/// The bucket of the limit or plan `name`, if that is published.
async fn find(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    name: &str,
) -> RedisResult<Option<(Limit, ShardKeys)>> {
    let known = change.spans.iter().filter_map(|(_, bucket)| bucket.ok());
    if let Some((limit, keys)) = known.into_iter().find(|(limit, _)| limit.name.as_str() == name) {
        return Ok(Some((limit.clone(), keys.clone())));
    }
    let Ok(name) = LimitName::published(name) else { return Ok(None) };
    let Some(read) = read_limit(connection, &name).await? else { return Ok(None) };
    let shard = shard_of(change.key, read.limit.shards);
    Ok(Some((read.limit, ShardKeys::new(connection.namespace(), &name, shard))))
}

async fn move_at_once(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    steps: &Steps<'_>,
    [key, held, mark]: [&str; 3],
    millis: u64,
) -> RedisResult<(u8, u64)> {
    let mut call = MOVE.key(key);
    for (limit, keys) in [steps.from, steps.to] {
        let algorithm = limit.algorithm;
        let state = keys.state(algorithm, change.key);
        match algorithm {
            Algorithm::TokenBucket => call.key(state).key(&keys.record).key(&keys.due).key(&keys.previous),
            Algorithm::Gcra => call.key(state).key(&keys.record),
            _ => call.key(&keys.record).key(state),
        };
    }
    let at = change.spans.last().map_or(0, |(from, _)| *from);
    call.arg(at).arg(held).arg(mark).arg(millis).arg(change.limit.on_change.as_str());
    call.arg(steps.from.0.algorithm.as_str()).arg(steps.to.0.algorithm.as_str());
    call.arg(steps.to.0.holds.max_debt()).arg(steps.until);
    for (from, limit) in &steps.behind {
        let (capacity, n, p) = numbers(*limit);
        call.arg(from).arg(capacity).arg(n).arg(p);
    }
    call.invoke_async(connection).await
}
