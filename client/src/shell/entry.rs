//! An entry of the bucket cache: a bucket's machine behind a lock, and the actions of its steps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use smol_str::SmolStr;
use topup_wire::{
    counts::Count,
    keyspace::{KeyHash, ShardKeys},
    limit::LimitName,
    namespace::InNamespace,
};

use super::{Handle, LimitHandle, Pending, Placed, Published, TaskWaiter};
use crate::{
    decision::Decision,
    machine::{BucketState, Denial, Event, Hot, HotCell, Micros, Spent},
};

/// A bucket of a limit. With very many buckets, each lies in main memory. Its key stands first, and the part that answers
/// takes without a lock stands last: the processor fetches both at once.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BucketEntry<P: ?Sized = [Hot]> {
    key: Option<SmolStr>,
    limit: Arc<LimitHandle>,
    key_hash: KeyHash,
    state: Mutex<State>,
    /// The place of the key's takes, if its limit has plans.
    pub(crate) placed: ArcSwapOption<Placed>,
    pub(super) hot: HotCell<P>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) machine: BucketState<TaskWaiter>,
    /// The instant of the bucket's timer; 0 without one.
    pub(super) armed_at: Micros,
}

// === impl BucketEntry ===

impl<P: Default> BucketEntry<P> {
    fn with_hot_cell(limit: Arc<LimitHandle>, key: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            key: key.map(SmolStr::new),
            limit,
            key_hash: KeyHash::of(key.unwrap_or_default()),
            state: Mutex::default(),
            placed: ArcSwapOption::empty(),
            hot: HotCell::default(),
        })
    }
}

impl BucketEntry {
    pub(crate) fn new(limit: Arc<LimitHandle>, key: Option<&str>) -> Arc<Self> {
        // Most takes from a lease spend a prefetched token.
        let is_leased = limit.last().is_some_and(|published| published.limit.lease.is_some());
        if is_leased {
            BucketEntry::<[Hot; 1]>::with_hot_cell(limit, key)
        } else {
            BucketEntry::<[Hot; 0]>::with_hot_cell(limit, key)
        }
    }

    /// Whether this is the bucket of `limit`, or of its `key`.
    pub(crate) fn is_of(&self, limit: &Arc<LimitHandle>, key: Option<&str>) -> bool {
        // A client has one handle of a limit.
        self.key() == key && Arc::ptr_eq(&self.limit, limit)
    }

    pub(crate) const fn limit(&self) -> &Arc<LimitHandle> {
        &self.limit
    }

    pub(crate) fn name(&self) -> &LimitName {
        &self.limit.name
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The hash of the key; that of an empty one for an unkeyed limit.
    pub(crate) const fn key_hash(&self) -> KeyHash {
        self.key_hash
    }

    /// The key as it is kept.
    pub(crate) fn kept_key(&self) -> Option<&SmolStr> {
        self.key.as_ref()
    }

    /// The limit as published now, if it has been read.
    pub(crate) fn published(&self, client: &Handle) -> Option<Arc<Published>> {
        self.limit.current(client.shared().control.epoch())
    }

    /// Whether memory may answer a take: it may hold a prefetched token or a denial. Reads no clock.
    #[inline]
    pub(crate) fn may_tell(&self) -> bool {
        self.hot.may_tell()
    }

    /// The answer to a take of one token without a lock: a prefetched token, or a cached denial.
    #[inline]
    pub(crate) fn at_once(self: &Arc<Self>, client: &Handle) -> Option<Decision> {
        self.at_once_noting(client, |_| {})
    }

    /// [`at_once`](Self::at_once), after `note` of what is to be counted. To read that from the decision instead doubles
    /// the time of a take from memory.
    #[inline]
    pub(crate) fn at_once_noting(
        self: &Arc<Self>,
        client: &Handle,
        note: impl FnOnce(Count),
    ) -> Option<Decision> {
        let shared = client.shared();
        if self.is_paused(client) {
            return None;
        }
        match self.hot.spend(shared.clock.now(), self.limit.epoch(shared.control.epoch())) {
            Spent::Tokens(decision, low) => {
                note(Count::Allowed);
                if low {
                    self.step(Event::TakeAhead, client, None);
                }
                Some(decision)
            }
            Spent::Denied(denial) => {
                note(Count::Denied);
                Some(denial.into())
            }
            Spent::Nothing => None,
        }
    }

    /// Prefetched tokens that may still be spent.
    pub(crate) fn prefetched(&self, client: &Handle) -> u64 {
        let epoch = self.limit.epoch(client.shared().control.epoch());
        self.hot.good(client.shared().clock.now(), epoch)
    }

    /// The denial of a take of `count` tokens, if the estimate knows it.
    pub(crate) fn denial(&self, count: u64, published: &Published, client: &Handle) -> Option<Denial> {
        let context = self.context(published, client.shared());
        self.lock().machine.denial(count, &context)
    }

    /// The last known denial of a take of `count` tokens, though its time may be over.
    pub(crate) fn last_denial(&self, count: u64, published: &Published, client: &Handle) -> Option<Denial> {
        let context = self.context(published, client.shared());
        self.lock().machine.last_denial(count, &context)
    }

    /// Whether the bucket has plenty for a take of `count` tokens, as far as the worker knows.
    pub(crate) fn has_plenty(&self, count: u64, published: &Published, client: &Handle) -> bool {
        let context = self.context(published, client.shared());
        self.lock().machine.has_plenty(count, &context)
    }

    /// Until when the bucket is below full, as far as the worker knows; 0 if it does not.
    pub(super) fn full_at(&self, published: &Published, client: &Handle) -> Micros {
        let context = self.context(published, client.shared());
        self.lock().machine.full_at(&context)
    }

    /// When the bucket's key has expired, as far as the worker knows.
    pub(super) fn expires_at(&self, published: &Published, client: &Handle) -> Micros {
        let context = self.context(published, client.shared());
        self.lock().machine.expires_at(&context)
    }

    /// The keys of the bucket's shard; those of the first shard for a limit that was never read.
    pub(super) fn shard_keys(&self, client: &Handle) -> ShardKeys {
        match self.limit.last() {
            Some(published) => published.locate(self).keys.clone(),
            None => ShardKeys::new(client.shared().connection().namespace(), self.name(), 0),
        }
    }

    /// Whether a command is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lock().machine.is_in_flight()
    }

    /// Steps the machine at the instant of its timer. If waiters are left and the limit may have changed, reads the limit.
    pub(crate) fn wake(self: &Arc<Self>, client: &Handle) {
        self.step(Event::Wake, client, None);
        if self.published(client).is_none() && self.lock().machine.has_waiters() {
            self.search(client);
        }
    }

    /// Takes `count` tokens, or waits for them until `until`.
    pub(crate) fn take<'b>(
        self: &'b Arc<Self>,
        count: u64,
        until: Option<Micros>,
        published: &Arc<Published>,
        client: &'b Handle,
    ) -> Pending<'b> {
        let (waiter, mut pending) = TaskWaiter::new(count, client, self);
        let until = until.unwrap_or(0);
        pending.since = self.step_under(Event::Take { waiter, count, until }, published, client, None).at;
        pending
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic elsewhere, the state is at worst out of date.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of an `Arc`, the place in the cache and the allocator add some 50 bytes to an entry.
    #[test]
    fn a_bucket_at_rest_takes_little_memory_and_one_in_use_not_much() {
        let (at_rest, more) = (size_of::<BucketEntry<[Hot; 0]>>(), BucketState::<TaskWaiter>::size_of_use());
        println!("{at_rest} bytes at rest, {more} more in use");
        assert!(at_rest <= 112 && at_rest + more <= 368);
    }
}
