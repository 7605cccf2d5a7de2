//! Local buckets: those that decide takes while Redis does not, under the outage policy `local`.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use smol_str::SmolStr;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use topup_wire::{bucket::Operation, limit::LimitName};

use super::{BucketEntry, Handle, Published};
use crate::{
    machine::Micros,
    outage::{LocalBucket, Share},
};

/// Most local buckets. Takes of further ones are denied, unless others are full again by then.
const MOST: usize = 65_536;
/// Time between two looks for local buckets that are full again, in µs.
const SWEEP_EVERY: Micros = 1_000_000;
/// Most charges in flight.
const MOST_CHARGES: usize = 128;
/// The longest time for all charges. Calls go to Redis again after it, whatever is charged by then.
const LONGEST_CHARGE: Duration = Duration::from_millis(500);

type Name = (LimitName, Option<SmolStr>);

/// The local buckets of a client. There are none before the first outage.
#[derive(Debug, Default)]
pub(crate) struct LocalBuckets {
    /// Whether there are any.
    any: AtomicBool,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    by_name: HashMap<Name, (Arc<BucketEntry>, LocalBucket)>,
    swept_at: Micros,
}

// === impl LocalBuckets ===

impl LocalBuckets {
    /// Removes the buckets whose node replies again.
    pub(super) fn forget(&self, is_back: impl Fn(&BucketEntry) -> bool) {
        let mut buckets = self.lock();
        buckets.by_name.retain(|_, (entry, _)| !is_back(entry));
        self.any.store(!buckets.by_name.is_empty(), Relaxed);
    }

    /// The buckets whose node replies again, each with the tokens to charge for.
    fn charges(&self, now: Micros, is_back: impl Fn(&BucketEntry) -> bool) -> Vec<(Arc<BucketEntry>, u64)> {
        let mut buckets = self.lock();
        let back = buckets.by_name.values_mut().filter(|(entry, _)| is_back(entry));
        let charges = back.map(|(entry, bucket)| (entry.clone(), bucket.charge(now)));
        charges.filter(|(_, tokens)| *tokens > 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Buckets ===

impl Buckets {
    /// The local bucket `name`, as full as the bucket in Redis was when it was last heard of; `None` if there are too many.
    fn get(
        &mut self,
        name: Name,
        entry: &Arc<BucketEntry>,
        now: Micros,
        new: impl Fn() -> LocalBucket,
    ) -> Option<&mut LocalBucket> {
        if self.by_name.len() >= MOST && !self.by_name.contains_key(&name) {
            if now < self.swept_at.saturating_add(SWEEP_EVERY) {
                return None;
            }
            self.swept_at = now;
            self.by_name.retain(|_, (_, bucket)| !bucket.is_full(now));
            if self.by_name.len() >= MOST {
                return None;
            }
        }
        let (_, bucket) = self.by_name.entry(name).or_insert_with(|| (entry.clone(), new()));
        if bucket.is_full(now) {
            // One of an earlier time without replies. The worker may know more by now.
            *bucket = new();
        }
        Some(bucket)
    }
}

// === impl BucketEntry ===

impl BucketEntry {
    /// Takes `count` tokens of the local bucket. The error is the time until they would be there, if that is known. A worker
    /// that has never read the limit, or never heard how many workers there are, has no local bucket.
    pub(crate) fn take_locally(
        self: &Arc<Self>,
        count: u64,
        handle: &Handle,
    ) -> Result<(), Option<Duration>> {
        let published = self.limit().last().ok_or(None)?;
        let shared = handle.shared();
        let now = shared.clock.now();
        let workers = shared.control.workers().ok_or(None)?;
        let new = || self.local_bucket(&published, workers, now, handle);
        let mut buckets = shared.local_buckets.lock();
        shared.local_buckets.any.store(true, Relaxed);
        let bucket = buckets.get(self.local_name(), self, now, new).ok_or(None)?;
        bucket.take(count, now).map_err(|wait| wait.map(Duration::from_micros))
    }

    /// Gives tokens back to the local bucket.
    pub(crate) fn put_back_locally(&self, count: u64, handle: &Handle) {
        if let Some((_, bucket)) = handle.shared().local_buckets.lock().by_name.get_mut(&self.local_name()) {
            bucket.put_back(count);
        }
    }

    /// Keeps what the worker knows of the bucket, before a command without a reply makes it forget.
    pub(crate) fn keep_warm(self: &Arc<Self>, published: &Published, handle: &Handle) {
        let shared = handle.shared();
        if !shared.control.uses_local() || !self.is_known(published, handle) {
            return;
        }
        let (now, Some(workers)) = (shared.clock.now(), shared.control.workers()) else { return };
        let mut buckets = shared.local_buckets.lock();
        shared.local_buckets.any.store(true, Relaxed);
        buckets.get(self.local_name(), self, now, || self.local_bucket(published, workers, now, handle));
    }

    /// The name of the local bucket: keys of one part have one.
    fn local_name(&self) -> Name {
        let published = self.limit().last();
        let part = published.as_ref().and_then(|published| published.limit.parts.of(self.key()?));
        (*self.name(), part.or(self.key()).map(SmolStr::new))
    }

    fn local_bucket(&self, published: &Published, workers: u64, now: Micros, handle: &Handle) -> LocalBucket {
        let part = self.key().and_then(|key| published.limit.part_of(key));
        let (capacity, pace) = match &part {
            Some(part) => (part.capacity, part.pace),
            None => (published.limit.terms.capacity.get(), published.terms.pace),
        };
        let headroom = self.full_at(published, handle).saturating_sub(now);
        let missing = (u128::from(headroom) * u128::from(pace.n)).div_ceil(u128::from(pace.p.max(1)));
        let tokens = capacity.saturating_sub(u64::try_from(missing).unwrap_or(u64::MAX));
        let share = match part {
            Some(_) => Share::new(capacity, pace, workers),
            None => Share::of(&published.limit, workers),
        };
        LocalBucket::new(share, tokens, capacity, now)
    }

    fn is_known(&self, published: &Published, handle: &Handle) -> bool {
        self.full_at(published, handle) > handle.shared().clock.now()
    }
}

// === impl Handle ===

impl Handle {
    /// Takes from buckets in Redis what local ones have spent, as far as they hold it. No charge is repeated.
    pub(super) async fn charge_local_buckets(&self, is_back: impl Fn(&BucketEntry) -> bool) {
        let shared = self.shared();
        if !shared.local_buckets.any.load(Relaxed) {
            return;
        }
        let room = Arc::new(Semaphore::new(MOST_CHARGES));
        let charge = |(entry, tokens): (Arc<BucketEntry>, u64)| {
            let (handle, room) = (self.clone(), room.clone());
            async move {
                let _permit = room.acquire().await;
                // Without a reply, the bucket in Redis has the tokens once more, or not.
                let _ = handle
                    .within_deadline(entry.settle(Operation::Lease(tokens), false, None, &handle))
                    .await;
            }
        };
        let charges = shared.local_buckets.charges(shared.clock.now(), is_back);
        let charges: JoinSet<()> = charges.into_iter().map(charge).collect();
        let _ = timeout(LONGEST_CHARGE, charges.join_all()).await;
    }
}
