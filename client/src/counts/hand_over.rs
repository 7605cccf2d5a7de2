//! The hand-over of counts to Redis: at most once.
//!
//! Counts whose hand-over had no answer are not sent again, since Redis may have added them. Therefore the counts in Redis
//! never exceed the takes. They lack only the counts of lost hand-overs.

use std::{sync::Arc, thread, time::Duration};

use futures_util::stream::{self, StreamExt};
use topup_wire::{
    connection::{Connection, connect_lazily},
    counts::Counts,
    keyspace::ShardKeys,
    limit::LimitName,
    namespace::{InNamespace, Namespace},
    scripts,
};

use crate::shell::{LimitHandle, Limits, clock::Clock};

/// Most limits in one command, so that no other command waits long for it.
const MOST_LIMITS: usize = 50;
/// Most commands in flight.
const MOST_IN_FLIGHT: usize = 4;
/// The longest time that the end of a client waits for Redis.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Limits with new counts, for one command.
type Batch = Vec<Arc<LimitHandle>>;

/// Hands new counts over to Redis. Sends nothing if there are none.
pub(crate) async fn hand_over(limits: &Limits, connection: &Connection, deadline: Duration, clock: &Clock) {
    // The next control poll finds out by itself whether Redis is away.
    let _ = clock.timeout(deadline, send(batches(limits, connection), connection)).await;
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
                    let connection = connection.in_namespace(namespace);
                    let _ = tokio::time::timeout(deadline, send(batches, &connection)).await;
                }
            });
            runtime.shutdown_background();
        }
    };
    if let Ok(sending) = thread::Builder::new().name("topup-counts".to_owned()).spawn(send_all) {
        let _ = sending.join();
    }
}

async fn send(batches: Vec<Batch>, connection: &Connection) {
    let send_one = |batch| send_batch(batch, connection.clone());
    stream::iter(batches).for_each_concurrent(MOST_IN_FLIGHT, send_one).await;
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

/// Hands over the most denied keys of a limit, if it tells them, and those that its penalty counts.
async fn hand_over_denied(limit: &LimitHandle, connection: &mut Connection) {
    if let Some((told, denied)) = limit.denied.begin_hand_over()
        && let Err(error) = scripts::add_denied(connection, &limit.name, told, &denied).await
        && scripts::is_uncounted(&error)
    {
        limit.denied.undo_hand_over(told, &denied);
    }
    let Some(penalty) = limit.last().and_then(|published| published.limit.penalty) else { return };
    if let Some((room, denied)) = limit.penal.begin_hand_over() {
        let counted = scripts::block_denied(connection, &limit.name, penalty, &denied.keys, |has_room| {
            limit.note_room_for_blocks(has_room);
        });
        if let Err(error) = counted.await
            && scripts::is_uncounted(&error)
        {
            limit.penal.undo_hand_over(room, &denied);
        }
    }
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
