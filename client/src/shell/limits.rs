//! The limits this worker has to do with: each read once per publication, whoever asks.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{
            AtomicBool, AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use arc_swap::ArcSwapOption;
use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use topup_wire::limit::LimitName;

use super::Published;

/// A limit of this name: what all its buckets share.
#[derive(Debug)]
pub(crate) struct LimitHandle {
    pub(crate) name: LimitName,
    /// The hash of the name.
    pub(crate) hash: u64,
    /// The limit as read last.
    published: ArcSwapOption<Published>,
    /// Whether it was not what it said: to be read anew.
    outdated: AtomicBool,
    /// Held by the one task that reads it.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// Whether there is more to it than its own decisions.
    special: AtomicBool,
    /// Share of first takes that were in vain of late, of [`ALL`].
    in_vain: AtomicU32,
}

/// All first takes.
const ALL: u32 = 1 << 16;
/// The weight of the last first take.
const WEIGHT: u32 = 64;
/// First takes are tried while fewer than this share is in vain: a first take in vain costs half a settle.
const WORTH_TRYING: u32 = ALL / 100 * 60;

/// Fewer than this share in vain: nearly all succeed.
const SURE: u32 = ALL / 100 * 5;
/// By so much the memory of first takes in vain fades at each step without one.
const FADES: u32 = 4;

/// All limits that were asked for, by name.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    by_name: RwLock<HashMap<LimitName, Arc<LimitHandle>>>,
    hashing: RandomState,
}

// === impl LimitHandle ===

impl LimitHandle {
    /// The limit as it was read under `epoch`, if it has been.
    pub(crate) fn current(&self, epoch: u64) -> Option<Arc<Published>> {
        let published = self.published.load();
        let current = published.as_ref().filter(|published| published.epoch == epoch)?;
        (!self.outdated.load(Acquire)).then(|| current.clone())
    }

    /// The limit as it was read last, however long ago.
    pub(crate) fn last(&self) -> Option<Arc<Published>> {
        self.published.load_full()
    }

    /// Sets what was read.
    pub(crate) fn set(&self, published: Arc<Published>) {
        self.special.store(published.tally.is_some(), Relaxed);
        self.published.store(Some(published));
        self.outdated.store(false, Release);
    }

    /// Has it read anew when it is next asked for.
    pub(crate) fn invalidate(&self) {
        self.outdated.store(true, Release);
    }

    /// Whether there is more to it than its own decisions, by what was read last.
    pub(crate) fn is_special(&self) -> bool {
        self.special.load(Relaxed)
    }

    /// Takes note of a first take.
    pub(crate) fn note_first_take(&self, in_vain: bool) {
        // Two at once may lose one of them: it is a mean.
        let share = self.in_vain.load(Relaxed);
        let now = share - share / WEIGHT + if in_vain { ALL / WEIGHT } else { 0 };
        self.in_vain.store(now, Relaxed);
    }

    /// Whether nearly all first takes have succeeded of late.
    pub(crate) fn first_takes_sure(&self) -> bool {
        self.in_vain.load(Relaxed) < SURE
    }

    /// Whether first takes are worth trying; now and then also where they are not, as times change.
    pub(crate) fn first_takes_pay(&self) -> bool {
        let share = self.in_vain.load(Relaxed);
        if share < WORTH_TRYING {
            return true;
        }
        // A settle in place of a first take lets the memory fade, so that one is tried again.
        self.in_vain.store(share - FADES, Relaxed);
        false
    }
}

// === impl Limits ===

impl Limits {
    /// The limit `name`.
    pub(crate) fn get(&self, name: LimitName) -> Arc<LimitHandle> {
        if let Some(handle) = self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(&name) {
            return handle.clone();
        }
        let handle = || {
            Arc::new(LimitHandle {
                hash: self.hashing.hash_one(name.as_str()),
                name,
                published: ArcSwapOption::empty(),
                outdated: AtomicBool::default(),
                reading: tokio::sync::Mutex::default(),
                special: AtomicBool::default(),
                in_vain: AtomicU32::default(),
            })
        };
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.entry(name).or_insert_with(handle).clone()
    }

    /// The limit `name`, if it was asked for before.
    #[cfg(feature = "tower")]
    pub(crate) fn find(&self, name: &str) -> Option<Arc<LimitHandle>> {
        let name = LimitName::published(name).ok()?;
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    /// A hasher for names of buckets.
    pub(crate) const fn hashing(&self) -> &RandomState {
        &self.hashing
    }
}
