//! Tokens on their way back: one task gives back what buckets have asked for, many in one write, never ahead of takes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use topup_wire::{connection::Connection, scripts::PutIn};

use super::{BucketEntry, Shared};
use crate::machine::PutBack;

/// So many are under way at once.
const MOST_UNDER_WAY: usize = 128;
/// More than that do not wait: what is too much is lost to its buckets, which is never more than they may give.
const MOST: usize = 4_096;
/// With nothing to do, the task looks so often whether its client is still there.
const IDLE: Duration = Duration::from_millis(250);

/// Tokens that wait to be put back.
#[derive(Debug, Default)]
pub(crate) struct PutBacks {
    waiting: Mutex<VecDeque<(Arc<BucketEntry>, PutBack)>>,
    filled: Notify,
}

// === impl PutBacks ===

impl PutBacks {
    pub(super) fn push(&self, entry: &Arc<BucketEntry>, put_back: PutBack) {
        let mut waiting = self.lock();
        if waiting.len() < MOST {
            waiting.push_back((entry.clone(), put_back));
            drop(waiting);
            self.filled.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(Arc<BucketEntry>, PutBack)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what has waited the longest.
    fn pop(&self) -> Option<(Arc<BucketEntry>, PutBack)> {
        self.lock().pop_front()
    }
}

/// Puts tokens back, until no client is left.
pub(crate) fn start(shared: &Arc<Shared>) {
    let (weak, connection) = (Arc::downgrade(shared), shared.connection());
    shared.runtime.spawn(keep(weak, shared.put_backs.clone(), connection, shared.deadline));
}

async fn keep(shared: Weak<Shared>, put_backs: Arc<PutBacks>, connection: Connection, deadline: Duration) {
    let room = Arc::new(Semaphore::new(MOST_UNDER_WAY));
    // Never closed.
    while let Ok(place) = room.clone().acquire_owned().await {
        let Some((entry, put_back)) = put_backs.pop() else {
            if shared.strong_count() == 0 {
                return;
            }
            let _ = tokio::time::timeout(IDLE, put_backs.filled.notified()).await;
            continue;
        };
        let connection = connection.clone();
        tokio::spawn(async move {
            give(entry, put_back, connection, deadline).await;
            drop(place);
        });
    }
}

/// Puts back the tokens of several buckets.
pub(crate) async fn give_all(
    batch: Vec<(Arc<BucketEntry>, PutBack)>,
    connection: &Connection,
    deadline: Duration,
) {
    let give = |(entry, put_back)| give(entry, put_back, connection.clone(), deadline);
    batch.into_iter().map(give).collect::<JoinSet<_>>().join_all().await;
}

/// Puts tokens back. What Redis does not take within the deadline, and the time for which others may have tokens in hand,
/// is lost to the bucket.
async fn give(entry: Arc<BucketEntry>, put_back: PutBack, mut connection: Connection, deadline: Duration) {
    let Some(published) = entry.limit().last() else { return };
    if put_back.or_lost && put_back.full_at.is_none() {
        return;
    }
    let request = PutIn {
        tokens: Some(put_back.tokens),
        full_at: put_back.full_at,
        or_lost: put_back.or_lost,
        in_hand_for: published.limit.in_hand_for(),
    };
    let putting = published.locate(entry.key());
    let putting = putting.put_in(&mut connection, request);
    // An error is for whoever waits for an answer, and nobody does.
    let _ = tokio::time::timeout(deadline + request.in_hand_for, putting).await;
}
