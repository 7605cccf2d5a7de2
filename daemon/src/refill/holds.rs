//! The sweep for abandoned holds: it puts their tokens back when their time is over.
//!
//! Several daemons may sweep at once: a hold is abandoned once.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use futures_util::stream::{self, StreamExt};
use redis::RedisResult;
use tokio::{sync::watch, time::sleep};
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, OnAbandon},
    namespace::InNamespace,
    scripts::{self, DueHold, HoldOf, HoldOutcome},
};

use crate::clock::Moment;

/// Between two looks at holds that are over.
const STEP: Duration = Duration::from_millis(100);
/// Holds of one look.
const MOST: usize = 250;
/// Holds that are put back at once.
const AT_ONCE: usize = 16;
/// Attempts to put a hold back, while other workers have tokens of its bucket in hand. The next look makes more.
const ATTEMPTS: u32 = 4;

/// A limit whose abandoned holds are put back.
struct Swept {
    limit: Limit,
    /// Time until the next look at each shard.
    looks: Vec<Duration>,
}

/// Sweeps without end the limits that `published` tells.
pub(super) async fn sweep_holds(connection: Connection, mut published: watch::Receiver<Vec<Limit>>) {
    let mut swept: BTreeMap<LimitName, Swept> = BTreeMap::new();
    let mut since = Moment::now();
    loop {
        if published.has_changed().unwrap_or(false) {
            update(&mut swept, &published.borrow_and_update());
        }
        let passed = std::mem::replace(&mut since, Moment::now()).elapsed();
        for Swept { limit, looks } in swept.values_mut() {
            for (shard, left) in (0..).zip(looks.iter_mut()) {
                *left = left.saturating_sub(passed);
                if left.is_zero() {
                    let keys = ShardKeys::new(connection.namespace(), &limit.name, shard);
                    *left = match sweep_shard(&connection, limit, &keys).await {
                        Ok(next) => next,
                        Err(error) => {
                            tracing::debug!("limit {}: holds are not swept ({error})", limit.name);
                            STEP
                        }
                    };
                }
            }
        }
        sleep(STEP).await;
    }
}

/// Takes in the published limits. One that no longer puts holds back is still swept: it may have open ones.
fn update(swept: &mut BTreeMap<LimitName, Swept>, published: &[Limit]) {
    swept.retain(|name, _| published.iter().any(|limit| limit.name == *name));
    for limit in published {
        let refunds = limit.holds.on_abandon() == OnAbandon::Refund;
        let looks = vec![Duration::ZERO; limit.shards.get().into()];
        match swept.entry(limit.name) {
            Entry::Vacant(entry) if refunds => drop(entry.insert(Swept { limit: limit.clone(), looks })),
            Entry::Occupied(mut entry) if entry.get().limit != *limit => {
                entry.insert(Swept { limit: limit.clone(), looks });
            }
            _ => {}
        }
    }
}

/// Puts back the holds of one shard that are over. Returns the time until the next look.
async fn sweep_shard(connection: &Connection, limit: &Limit, keys: &ShardKeys) -> RedisResult<Duration> {
    let due = scripts::due_holds(&mut connection.clone(), keys, MOST).await?;
    if due.holds.is_empty() {
        // A new hold is not over before this.
        let ttl = limit.holds.ttl();
        let left = |next: u64| Duration::from_micros(next.saturating_sub(due.now));
        return Ok(due.next.map_or(ttl, left).clamp(STEP, ttl));
    }
    let (algorithm, in_hand_for) = (limit.algorithm, limit.in_hand_for());
    let put_back = due
        .holds
        .into_iter()
        .map(|hold| put_back(connection.clone(), algorithm, in_hand_for, keys.clone(), hold));
    let put_back: Vec<_> = put_back.collect();
    let results: Vec<RedisResult<()>> = stream::iter(put_back).buffer_unordered(AT_ONCE).collect().await;
    let failed = results.iter().filter(|result| result.is_err()).count();
    tracing::debug!("limit {}: {} abandoned holds, {failed} not put back", limit.name, results.len());
    Ok(STEP)
}

async fn put_back(
    mut connection: Connection,
    algorithm: Algorithm,
    in_hand_for: Duration,
    keys: ShardKeys,
    hold: DueHold,
) -> RedisResult<()> {
    let DueHold { id, tokens, member } = &hold;
    let hold = HoldOf { algorithm, keys: &keys, member, id, tokens: *tokens, is_remembered: true };
    for _ in 0..ATTEMPTS {
        let reply = scripts::abandon_hold(&mut connection, hold, in_hand_for).await?;
        let wait = Duration::from_micros(reply.settled.wait);
        // Others are not to wait for as long: the next look is for this one, too.
        if reply.outcome != HoldOutcome::Again || wait > STEP {
            break;
        }
        sleep(wait).await;
    }
    Ok(())
}
