//! The hand-over of counts to Redis: at most once.
//!
//! Counts whose hand-over had no answer are not sent again, since Redis may have added them. Therefore the counts in Redis
//! never exceed the takes. They lack only the counts of lost hand-overs.

use std::{sync::Arc, thread, time::Duration};

use futures_util::stream::{self, StreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::{Connection, connect_lazily},
    counts::Counts,
    keyspace::ShardKeys,
    limit::{LimitName, Penalty, TopKeys},
    namespace::{InNamespace, Namespace},
    scripts::{self, DeniedKeys},
};

use crate::shell::{LimitHandle, Limits};

/// Most limits in one command, so that no other command waits long for it.
const MOST_LIMITS: usize = 50;
/// Most commands in flight.
const MOST_IN_FLIGHT: usize = 4;
/// The longest time that the end of a client waits for Redis.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Limits with new counts, for one command.
type Batch = Vec<Arc<LimitHandle>>;

/// Hands new counts over to Redis. Sends nothing if there are none.
pub(crate) async fn hand_over(limits: &Limits, connection: &Connection, deadline: Duration) {
    send(batches(limits, connection), connection, deadline).await;
}

/// Hands the last counts over, before the process may end. It has a thread and a connection of its own, since the runtime
/// of the client may be ending, too. Waits for Redis until the deadline, and not at all if there are no counts.
pub(crate) fn hand_over_at_end(
    limits: &Limits,
    connection: &Connection,
    url: &str,
    namespace: Namespace,
    deadline: Duration,
) {
    let batches = batches(limits, connection);
    if batches.is_empty() {
        return;
    }
    let url = url.to_owned();
    let deadline = deadline.min(LONGEST_END);
    let send_all = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(async {
                if let Ok(connection) = connect_lazily(&url) {
                    send(batches, &connection.in_namespace(namespace), deadline).await;
                }
            });
            runtime.shutdown_background();
        }
    };
    if let Ok(sending) = thread::Builder::new().name("topup-counts".to_owned()).spawn(send_all) {
        let _ = sending.join();
    }
}

async fn send(batches: Vec<Batch>, connection: &Connection, deadline: Duration) {
    let send_one = |batch| send_batch(batch, connection.clone());
    let all = stream::iter(batches).for_each_concurrent(MOST_IN_FLIGHT, send_one);
    // The next control poll finds out by itself whether Redis is away.
    let _ = tokio::time::timeout(deadline, all).await;
}

async fn send_batch(batch: Batch, mut connection: Connection) {
    // Not before its turn: what is not sent stays.
    let counts = batch.iter().map(|limit| (limit.name, limit.counts.begin_hand_over()));
    let counts: Vec<(LimitName, Counts)> = counts.collect();
    if let Err(error) = scripts::count(&mut connection, &counts).await
        && scripts::is_uncounted(&error)
    {
        for (limit, (_, new)) in batch.iter().zip(&counts) {
            limit.counts.undo_hand_over(new);
        }
    }
    for limit in &batch {
        hand_over_denied(limit, &mut connection).await;
    }
}

/// Hands over the most denied keys of a limit, if it tells them or has a penalty.
async fn hand_over_denied(limit: &LimitHandle, connection: &mut Connection) {
    let Some((room, denied)) = limit.denied.begin_hand_over() else { return };
    let Some(published) = limit.last() else { return };
    let (told, penalty) = (published.limit.top_keys, published.limit.penalty);
    if told != TopKeys::NONE
        && let Err(error) = scripts::add_denied(connection, &limit.name, told, &denied).await
    {
        if scripts::is_uncounted(&error) {
            limit.denied.undo_hand_over(room, &denied);
        }
        return;
    }
    // Keys that were told are not handed over again, or Redis would have too many of their denied takes.
    if let Some(penalty) = penalty
        && let Err(error) = block(limit, penalty, &denied, connection).await
        && told == TopKeys::NONE
        && scripts::is_uncounted(&error)
    {
        limit.denied.undo_hand_over(room, &denied);
    }
}

/// Counts denied takes for the penalty of a limit, and blocks the keys that have had too many.
async fn block(
    limit: &LimitHandle,
    penalty: Penalty,
    denied: &DeniedKeys,
    connection: &mut Connection,
) -> RedisResult<()> {
    let blocked = scripts::penalize(&mut connection.clone(), &limit.name, penalty, &denied.keys).await?;
    for (key, time) in blocked {
        match scripts::block(connection, &limit.name.live(), key, time).await {
            Ok(reply) => limit.note_room_for_blocks(reply.left.is_some()),
            // The key is blocked by a later penalty, if it goes on.
            Err(_) => break,
        }
    }
    Ok(())
}

/// The limits with new counts: several to a command, or each by itself on a cluster.
fn batches(limits: &Limits, connection: &Connection) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    // Trials beside a limit are counted with that limit.
    let is_new = |limit: &Arc<LimitHandle>| !limit.name.is_trial() && limit.counts.has_new();
    for limit in limits.all().into_iter().filter(is_new) {
        let keys = ShardKeys::new(connection.namespace(), &limit.name, 0);
        let most = if connection.node_of(keys.hash_slot).is_some() { 1 } else { MOST_LIMITS };
        match batches.last_mut() {
            Some(batch) if batch.len() < most => batch.push(limit),
            _ => batches.push(vec![limit]),
        }
    }
    batches
}
