//! The limits of a worker, each read once per publication.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use foldhash::quality::RandomState;
use topup_wire::limit::LimitName;

use super::LimitHandle;

/// All limits used so far, by name.
#[derive(Debug)]
pub(crate) struct Limits {
    by_name: RwLock<HashMap<LimitName, Arc<LimitHandle>>>,
    hashing: RandomState,
    /// No limit that was read ends before this instant, in µs of Redis `TIME`.
    next_end: AtomicU64,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            by_name: RwLock::default(),
            hashing: RandomState::default(),
            next_end: AtomicU64::new(u64::MAX),
        }
    }
}

impl Limits {
    /// The limit `name`.
    pub(crate) fn get(&self, name: LimitName) -> Arc<LimitHandle> {
        if let Some(handle) = self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(&name) {
            return handle.clone();
        }
        let handle = || Arc::new(LimitHandle::new(name, self.hashing.hash_one(name.as_str())));
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.entry(name).or_insert_with(handle).clone()
    }

    /// The limit `name`, if it was used before.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<LimitHandle>> {
        let name = LimitName::published(name).ok()?;
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    /// Has these limits read again before their next use, if they were used before.
    pub(crate) fn note_changes(&self, names: &[LimitName]) {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().filter_map(|name| by_name.get(name)).for_each(|limit| limit.note_change());
    }

    /// Records the end of a limit that was read.
    pub(crate) fn note_end(&self, at: u64) {
        self.next_end.fetch_min(at, Relaxed);
    }

    /// Has limits read again that have ended at `now`, in µs of Redis `TIME`: they may have been renewed.
    pub(crate) fn end(&self, now: u64) {
        if now < self.next_end.load(Relaxed) {
            return;
        }
        self.next_end.store(u64::MAX, Relaxed);
        for limit in self.all() {
            match limit.last().and_then(|published| published.expires) {
                Some(end) if end <= now => limit.note_change(),
                Some(end) => self.note_end(end),
                None => {}
            }
        }
    }

    /// All limits.
    pub(crate) fn all(&self) -> Vec<Arc<LimitHandle>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The hasher for names of buckets.
    pub(crate) const fn hashing(&self) -> &RandomState {
        &self.hashing
    }
}
