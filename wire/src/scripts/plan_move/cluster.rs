//! The move on a cluster, whose buckets and mark are in several hash slots: one command after the other.

use std::time::Duration;

use redis::{Cmd, RedisResult};

use super::steps::{Held, PlanBucket, PlanMove, Steps, numbers};
use crate::{
    bucket::Operation,
    limit::{Limit, OnChange},
    namespace::InNamespace,
    reply::Verdict,
    scripts,
};

/// A worker that moves tokens in steps is alone for this long. One that died delays the others by no more.
pub(super) const TURN: Duration = Duration::from_millis(60);

/// Makes the move. The outcome is that of `move.lua`, and 0 also while another worker makes it.
pub(super) async fn move_in_steps(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    steps: &Steps<'_>,
    [key, held, mark]: [&str; 3],
    millis: u64,
) -> RedisResult<(u8, u64)> {
    let turn = connection.namespace().plan_turn(&change.limit.name, change.key);
    let mut begin = Cmd::new();
    begin.arg("SET").arg(&turn).arg(mark).arg("NX").arg("PX").arg(TURN.as_millis() as u64);
    if begin.query_async::<Option<String>>(connection).await?.is_none() {
        return Ok((0, 0));
    }
    let now = scripts::now(connection).await?;
    // Another worker may have had its turn since the mark was read.
    let marked: Option<String> = Cmd::get(key).query_async(connection).await?;
    let outcome = if now < change.spans.last().map_or(0, |(from, _)| *from) {
        0
    } else if now >= steps.until {
        3
    } else if marked.unwrap_or_default() != held {
        2
    } else {
        take_steps(connection, change, steps, now, [key, mark], millis).await?;
        1
    };
    Cmd::del(&turn).exec_async(connection).await?;
    Ok((outcome, now))
}

/// Makes the move, one command after the other.
async fn take_steps(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    steps: &Steps<'_>,
    now: u64,
    [key, mark]: [&str; 2],
    millis: u64,
) -> RedisResult<()> {
    let (Some(from), Some(to)) =
        (held(connection, change, steps.from).await?, held(connection, change, steps.to).await?)
    else {
        return Ok(());
    };
    let part = to.exact - to.whole as f64;
    let mut goal = steps.tokens(from, change.limit.on_change, now, part).min(to.capacity.cast_signed());
    if steps.from.0.name != steps.to.0.name {
        match from.whole {
            0 => {}
            whole @ 1.. => {
                apply(connection, change, steps.from, Operation::Take(whole.cast_unsigned())).await?
            }
            debt => apply(connection, change, steps.from, Operation::Refund(debt.unsigned_abs())).await?,
        }
        if change.limit.on_change != OnChange::Reset {
            goal = goal.saturating_add(to.whole.min(0));
        }
    }
    // Others take by the new plan once they see the mark.
    let left = goal.clamp(0, to.whole.max(0));
    if left < to.whole {
        apply(connection, change, steps.to, Operation::Take(to.whole.abs_diff(left))).await?;
    }
    let mut mark_it = Cmd::new();
    mark_it.arg("SET").arg(key).arg(mark).arg("PX").arg(millis).arg("GET");
    let others: Option<String> = mark_it.query_async(connection).await?;
    if others.as_deref() == Some(mark) {
        return Ok(());
    }
    let (own, max_debt) = (to.whole.min(left), steps.to.0.holds.max_debt());
    if goal < own.min(0) {
        let charge = Operation::Charge { count: own.abs_diff(goal), most_debt: max_debt };
        apply(connection, change, steps.to, charge).await?;
    } else if goal > own && change.limit.on_change != OnChange::Proportional && is_rated(steps.to.0) {
        apply(connection, change, steps.to, Operation::Refund(own.abs_diff(goal))).await?;
    }
    Ok(())
}

fn is_rated(limit: &Limit) -> bool {
    limit.terms.supply.lowest_terms().0 > 0
}

async fn apply(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    (limit, keys): PlanBucket<'_>,
    operation: Operation,
) -> RedisResult<()> {
    scripts::settle(connection, limit.algorithm, keys, change.key, operation, false, None).await.map(drop)
}

/// As `held` of `move.lua`. `None` if the limit is not published.
async fn held(
    connection: &mut impl InNamespace,
    change: &PlanMove<'_>,
    (limit, keys): PlanBucket<'_>,
) -> RedisResult<Option<Held>> {
    let mut peek = async |count| {
        scripts::settle(connection, limit.algorithm, keys, change.key, Operation::Peek(count), false, None)
            .await
    };
    let told = peek(1).await?;
    if told.verdict == Verdict::Unknown {
        return Ok(None);
    }
    let (tokens, capacity) = (told.tokens, told.capacity);
    let mut held = Held { exact: tokens as f64, whole: tokens.cast_signed(), capacity };
    let (_, n, p) = numbers(Ok(limit));
    if n > 0 && tokens < capacity {
        let wait = peek(capacity).await?.wait;
        let exact = capacity as f64 - wait as f64 * (n as f64 / p as f64);
        if tokens > 0 || !limit.catch_up {
            held.exact = exact.clamp(tokens as f64, tokens as f64 + 1.0);
        } else {
            held.exact = exact.min(1.0);
            held.whole = ((exact + 1e-6).floor() as i64).min(0);
        }
    }
    Ok(Some(held))
}
