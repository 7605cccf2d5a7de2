//! The expiry queue: has Redis remove keys as soon as they have expired.
//!
//! Redis searches for expired keys ten times a second, and answers nobody until it has removed most of them. Where thousands
//! of buckets a second are full again, that takes ms. But it removes a key at once if a command names it after its expiry.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::Notify;
use topup_wire::hash_slot::HashSlot;

use super::{BucketEntry, Handle, PipelineRequest, Shared};
use crate::machine::Micros;

/// Keys that expire within so many µs are named together.
const STEP: Micros = 2_000;
/// Fewer keys in a step are left to Redis: its search for them takes less than a ms.
const LEAST: usize = 4;
/// More keys of a step are named in parts, since Redis answers nobody else meanwhile.
const MANY: usize = 128;
/// Parts of a step at most.
const MOST_PARTS: usize = 8;
/// Between two parts of a step.
const APART: Duration = Duration::from_millis(1);
/// Between two looks without keys, to notice that the client is gone.
const IDLE: Duration = Duration::from_millis(250);

/// Buckets by the instant at which their keys have expired.
#[derive(Debug)]
pub(crate) struct ExpiryQueue {
    most: usize,
    steps: Mutex<Steps>,
    /// Notified of a step that has [`LEAST`] keys.
    filled: Notify,
}

#[derive(Debug, Default)]
struct Steps {
    /// The buckets of each step, by its number since the beginning of time.
    buckets: BTreeMap<u64, Vec<Arc<BucketEntry>>>,
    len: usize,
}

// === impl ExpiryQueue ===

impl ExpiryQueue {
    /// A queue for `most` keys. Further ones are left to Redis.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, steps: Mutex::default(), filled: Notify::new() }
    }

    /// Adds a bucket whose key has expired at the instant `at`, or later.
    pub(super) fn push(&self, at: Micros, entry: &Arc<BucketEntry>) {
        let mut steps = self.lock();
        if steps.len >= self.most {
            return;
        }
        steps.len += 1;
        let step = steps.buckets.entry(at / STEP).or_default();
        step.push(entry.clone());
        let is_filled = step.len() == LEAST;
        drop(steps);
        if is_filled {
            self.filled.notify_one();
        }
    }

    /// Removes all steps that are over at `now`, up to the first one with [`LEAST`] keys, and returns that.
    fn pop(&self, now: Micros) -> Option<Vec<Arc<BucketEntry>>> {
        let mut steps = self.lock();
        while let Some(first) = steps.buckets.first_entry().filter(|first| end_of(*first.key()) <= now) {
            let step = first.remove();
            steps.len -= step.len();
            if step.len() >= LEAST {
                return Some(step);
            }
        }
        None
    }

    /// The end of the first step with [`LEAST`] keys.
    fn due_at(&self) -> Option<Micros> {
        let steps = self.lock();
        steps.buckets.iter().find(|(_, step)| step.len() >= LEAST).map(|(number, _)| end_of(*number))
    }

    fn lock(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn end_of(step: u64) -> Micros {
    (step + 1).saturating_mul(STEP)
}

/// Starts the task, which ends with the last client.
pub(crate) fn start(shared: &Arc<Shared>) {
    shared.runtime.spawn(run(Arc::downgrade(shared), shared.expiry_queue.clone()));
}

async fn run(shared: Weak<Shared>, queue: Arc<ExpiryQueue>) {
    let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else { return };
    while shared.strong_count() > 0 {
        let now = clock.now();
        let Some(step) = queue.pop(now) else {
            let until_due = |at: Micros| Duration::from_micros(at.saturating_sub(now).max(1));
            let wait = queue.due_at().map_or(IDLE, until_due).min(IDLE);
            let _ = tokio::time::timeout(wait, queue.filled.notified()).await;
            continue;
        };
        let most = step.len().div_ceil(MOST_PARTS).max(MANY);
        for (turn, part) in step.chunks(most).enumerate() {
            if turn > 0 {
                tokio::time::sleep(APART).await;
            }
            let Some(client) = shared.upgrade().map(Handle::of) else { return };
            name_expired(part, &client);
        }
    }
}

/// Names the keys of `part` to Redis that have expired. The others stay in the queue.
fn name_expired(part: &[Arc<BucketEntry>], client: &Handle) {
    let shared = client.shared();
    // A Redis that replies again has more urgent commands first.
    if shared.breakers.any_in_doubt() {
        return;
    }
    // A command names keys of one node. Only those of one hash slot are certain to be on one.
    let (is_cluster, mut by_slot) = (shared.pipelines.is_cluster(), HashMap::<_, Vec<_>>::new());
    for entry in part {
        let Some(published) = entry.limit().last() else { continue };
        let expires_at = entry.expires_at(&published, client);
        if expires_at > shared.clock.now() {
            // Takes have moved that instant.
            shared.expiry_queue.push(expires_at, entry);
            continue;
        }
        let location = published.locate(entry);
        let slot = if is_cluster { location.keys.hash_slot } else { HashSlot::default() };
        by_slot.entry(slot).or_default().push(location.state());
    }
    for (slot, keys) in by_slot {
        if keys.len() >= LEAST {
            shared.pipelines.send_soon(slot, PipelineRequest::expired(client, keys));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Limits;

    fn queue_of(most: usize, expiries: &[Micros]) -> ExpiryQueue {
        let entry = BucketEntry::new(Limits::default().get("user".parse().unwrap()), Some("alice"));
        let queue = ExpiryQueue::new(most);
        expiries.iter().for_each(|at| queue.push(*at, &entry));
        queue
    }

    #[test]
    fn keys_come_when_they_have_expired_and_few_ones_are_left_to_redis() {
        let queue = queue_of(100, &[9_000, 4_001, 4_000, 5_999, 4_000, 2_000, 9_999, 9_998, 9_997, 9_996]);
        let pop = |now| queue.pop(now).map(|step| step.len());
        assert_eq!((queue.due_at(), pop(5_999)), (Some(6_000), None));
        assert_eq!((pop(6_000), pop(6_000)), (Some(4), None));
        assert_eq!((queue.due_at(), pop(9_999), pop(20_000)), (Some(10_000), None, Some(5)));
        assert_eq!((queue.due_at(), pop(Micros::MAX), queue.lock().len), (None, None, 0));
    }

    #[test]
    fn no_more_keys_are_kept_than_told_and_others_find_room_once_they_are_gone() {
        let queue = queue_of(5, &[1_000; 8]);
        assert_eq!(queue.pop(10_000).map(|step| step.len()), Some(5));
        let entry = BucketEntry::new(Limits::default().get("user".parse().unwrap()), None);
        queue.push(1_000, &entry);
        assert_eq!(queue.lock().len, 1);
    }
}
