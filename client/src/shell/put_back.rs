//! Put-backs: one task sends them, many in one write.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use topup_wire::connection::Connection;

use super::{BucketEntry, Shared, clock::Clock, deadline::Deadline};
use crate::machine::PutBack;

/// Most put-backs in flight.
const MOST_IN_FLIGHT: usize = 128;
/// Most put-backs that wait. The tokens of further ones are lost to their buckets, which allow less then, never more.
const MOST_WAITING: usize = 4_096;
/// Between two looks without a put-back, to notice that the client is gone.
const IDLE: Duration = Duration::from_millis(250);

type Queue = VecDeque<(Arc<BucketEntry>, PutBack)>;

/// Put-backs that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct PutBacks {
    waiting: Mutex<Queue>,
    added: Notify,
}

// === impl PutBacks ===

impl PutBacks {
    pub(super) fn push(&self, entry: &Arc<BucketEntry>, put_back: PutBack) {
        let mut waiting = self.lock();
        if waiting.len() < MOST_WAITING {
            waiting.push_back((entry.clone(), put_back));
            drop(waiting);
            self.added.notify_one();
        }
    }

    fn pop(&self) -> Option<(Arc<BucketEntry>, PutBack)> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the task, which ends after the last client.
pub(crate) fn start(shared: &Arc<Shared>) {
    let (weak, connection) = (Arc::downgrade(shared), shared.connection());
    let (put_backs, clock) = (shared.put_backs.clone(), shared.clock.clone());
    shared.runtime.spawn(run(weak, put_backs, connection, shared.deadline, clock));
}

async fn run(
    shared: Weak<Shared>,
    put_backs: Arc<PutBacks>,
    connection: Connection,
    deadline: Duration,
    clock: Arc<Clock>,
) {
    let in_flight = Arc::new(Semaphore::new(MOST_IN_FLIGHT));
    // Ends by `return` only: the semaphore is never closed.
    while let Ok(permit) = in_flight.clone().acquire_owned().await {
        let Some((entry, put_back)) = put_backs.pop() else {
            if shared.strong_count() == 0 {
                return;
            }
            let _ = tokio::time::timeout(IDLE, put_backs.added.notified()).await;
            continue;
        };
        // A bucket of another schema may no longer be where it was. Its tokens are lost.
        if shared.upgrade().is_some_and(|shared| shared.control.newer_schema().is_some()) {
            continue;
        }
        let (connection, clock) = (connection.clone(), clock.clone());
        tokio::spawn(async move {
            send(entry, put_back, connection, deadline, clock).await;
            drop(permit);
        });
    }
}

/// Puts back tokens of several buckets.
pub(crate) async fn put_back_all(
    batch: Vec<(Arc<BucketEntry>, PutBack)>,
    connection: &Connection,
    deadline: Duration,
    clock: &Arc<Clock>,
) {
    let send = |(entry, put_back)| send(entry, put_back, connection.clone(), deadline, clock.clone());
    batch.into_iter().map(send).collect::<JoinSet<_>>().join_all().await;
}

/// Sends one put-back. Without a reply within the deadline, its tokens are lost to the bucket.
async fn send(
    entry: Arc<BucketEntry>,
    put_back: PutBack,
    mut connection: Connection,
    deadline: Duration,
    clock: Arc<Clock>,
) {
    let Some(published) = entry.limit().last() else { return };
    let request = put_back.request(Some(0), published.limit.in_hand_for());
    let location = published.locate(&entry);
    // No caller waits for this reply or error.
    let deadline = Deadline::new(&clock, deadline, published.limit.puts_in_within());
    let _ = deadline.within(location.put_in(&mut connection, request, &deadline)).await;
}
