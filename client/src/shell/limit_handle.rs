//! A limit of a worker, shared by all its buckets.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use arc_swap::ArcSwapOption;
use smol_str::SmolStr;
use topup_wire::{
    limit::{LimitName, TopKeys},
    scripts::MOST_BLOCKS,
};

use super::Published;
use crate::{
    counts::{DeniedByKey, LimitCounts},
    decision::Decision,
    error::Error,
    machine::FirstTakes,
    say::say,
};

/// A limit by its name, shared by all its buckets.
#[derive(Debug)]
pub(crate) struct LimitHandle {
    pub(crate) name: LimitName,
    /// The hash of the name.
    pub(crate) hash: u64,
    /// Counts changes of this limit that workers were told of by its name.
    changes: AtomicU64,
    /// The limit as last read.
    published: ArcSwapOption<Published>,
    /// Redis has shown that the limit changed since: it is read again.
    outdated: AtomicBool,
    /// Held by the task that reads the limit.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// The counts of its takes.
    pub(crate) counts: LimitCounts,
    /// The denied takes by key, if the limit tells keys.
    pub(crate) denied: DeniedByKey,
    /// The denied takes that count for its penalty, if it has one. Pauses deny others.
    pub(crate) penal: DeniedByKey,
    /// [`ON_TRIAL`] and [`COUNTS_KEYS`], as last read.
    flags: AtomicU8,
    /// Its keys may have plans, as last read, or it is a plan itself.
    planned: AtomicBool,
    /// It has been said that the record cannot be read.
    said_unreadable: AtomicBool,
    /// It has been said that there is no room for blocks.
    said_no_room: AtomicBool,
    /// Share of recent first takes that failed, of [`ALL`].
    failed: AtomicU32,
}

/// The limit is on trial.
const ON_TRIAL: u8 = 1;
/// Denied takes are counted by key: the limit tells its most denied keys, or has a penalty for them.
const COUNTS_KEYS: u8 = 2;
/// All first takes.
const ALL: u32 = 1 << 16;
/// The last first take has a weight of one part in this many.
const WEIGHT: u32 = 64;
/// First takes are tried below this share of failed ones: a failed first take costs half a settle.
const WORTH_TRYING: u32 = ALL / 100 * 60;
/// Below this share of failed ones, a first take is expected to succeed.
const SURE: u32 = ALL / 100 * 5;
/// The share shrinks by this at each step without a first take, so that one is tried again.
const FADES: u32 = 4;

// === impl LimitHandle ===

impl LimitHandle {
    /// A limit that has not been read yet. `hash` is that of its name.
    pub(super) fn new(name: LimitName, hash: u64) -> Self {
        Self {
            hash,
            name,
            changes: AtomicU64::default(),
            published: ArcSwapOption::empty(),
            outdated: AtomicBool::default(),
            reading: tokio::sync::Mutex::default(),
            counts: LimitCounts::default(),
            denied: DeniedByKey::default(),
            penal: DeniedByKey::default(),
            flags: AtomicU8::default(),
            planned: AtomicBool::default(),
            said_unreadable: AtomicBool::default(),
            said_no_room: AtomicBool::default(),
            failed: AtomicU32::default(),
        }
    }

    /// The epoch of this limit, where `epoch` is that of all limits: what was known under another is known no longer.
    #[inline]
    pub(crate) fn epoch(&self, epoch: u64) -> u64 {
        // Both only rise. The sum tells whether one of them has.
        epoch.wrapping_add(self.changes.load(Acquire))
    }

    /// Records that the limit has changed since it was read.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Release);
    }

    /// The limit, if it was read under `epoch` and has not changed since.
    pub(crate) fn current(&self, epoch: u64) -> Option<Arc<Published>> {
        let published = self.published.load();
        published.as_ref().filter(|published| self.is_current(published, epoch)).cloned()
    }

    /// Whether `published` is the limit as published now. Locks nothing.
    #[inline]
    pub(crate) fn is_current(&self, published: &Published, epoch: u64) -> bool {
        published.epoch == self.epoch(epoch) && !self.outdated.load(Acquire)
    }

    /// The limit as last read, however long ago.
    pub(crate) fn last(&self) -> Option<Arc<Published>> {
        self.published.load_full()
    }

    /// `assigned` says that keys are assigned by hand.
    pub(crate) fn set(&self, published: Arc<Published>, assigned: bool) {
        let trial = if published.limit.has_trial() { ON_TRIAL } else { 0 };
        let limit = &published.limit;
        let counts_keys = limit.top_keys != TopKeys::NONE || limit.penalty.is_some();
        let keys = if counts_keys { COUNTS_KEYS } else { 0 };
        self.flags.store(trial | keys, Relaxed);
        let planned = assigned || published.has_plans() || self.name.as_plan().is_some();
        self.planned.store(planned, Relaxed);
        self.published.store(Some(published));
        self.outdated.store(false, Release);
        self.said_unreadable.store(false, Relaxed);
    }

    /// Returns `error`, and says it if it is the first of its kind since the limit was read.
    pub(crate) fn unreadable(&self, error: Error) -> Error {
        let is_new = matches!(error, Error::UnreadableLimit { .. });
        if is_new && !self.said_unreadable.swap(true, Relaxed) {
            say(&format!("{error}; until then, the outage policy decides"));
        }
        error
    }

    /// Records whether a key that earned a penalty could be blocked, and says once that it could not.
    pub(crate) fn note_room_for_blocks(&self, has_room: bool) {
        if !self.said_no_room.swap(!has_room, Relaxed) && !has_room {
            let name = self.name;
            say(&format!(
                "limit {name}: a key that earned a penalty is not blocked: {MOST_BLOCKS} keys and limits are paused \
                 already, and the limit denies what it denies without penalties"
            ));
        }
    }

    /// Has the limit read again before its next use.
    pub(crate) fn invalidate(&self) {
        self.outdated.store(true, Release);
    }

    /// Records that keys are assigned by hand.
    pub(crate) fn note_assigned(&self) {
        self.planned.store(true, Relaxed);
    }

    /// Whether the limit's keys may have plans, as last read, or it is a plan itself.
    #[inline]
    pub(crate) fn is_planned(&self) -> bool {
        self.planned.load(Relaxed)
    }

    /// Whether the limit is on trial, as last read.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.flags.load(Relaxed) & ON_TRIAL != 0
    }

    /// Counts a decision. `false` if it needs more than that, and is not counted yet.
    #[inline]
    pub(crate) fn count(&self, decision: &Decision) -> bool {
        let is_plain = !self.is_special();
        if is_plain {
            self.counts.add_decision(decision);
        }
        is_plain
    }

    /// Whether a decision needs more than to be counted: the limit is on trial, or counts denied takes by key.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.flags.load(Relaxed) != 0
    }

    /// Counts a denied take of `key`, if the limit counts them by key. `is_paused` tells whether a pause denied it.
    pub(crate) fn note_decision(
        &self,
        key: Option<&SmolStr>,
        decision: &Decision,
        is_paused: impl FnOnce() -> bool,
    ) {
        if self.flags.load(Relaxed) & COUNTS_KEYS != 0
            && decision.would_deny()
            && !decision.is_degraded()
            && let (Some(key), Some(published)) = (key, self.last())
        {
            let told = published.limit.top_keys;
            if told != TopKeys::NONE {
                self.denied.add(key, told);
            }
            if published.limit.penalty.is_some() && !is_paused() {
                self.penal.add(key, TopKeys::MOST);
            }
        }
    }

    /// Records the result of a first take.
    pub(crate) fn note_first_take(&self, failed: bool) {
        // A concurrent call may overwrite this one. The share is a mean, and stays a good one.
        let share = self.failed.load(Relaxed);
        self.failed.store(share - share / WEIGHT + if failed { ALL / WEIGHT } else { 0 }, Relaxed);
    }

    /// The likelihood that a first take of a bucket succeeds. `rests_as_number` tells the form of the bucket at rest.
    pub(crate) fn first_takes(&self, rests_as_number: bool) -> FirstTakes {
        match self.failed.load(Relaxed) {
            0..SURE => FirstTakes::Sure,
            SURE..WORTH_TRYING => FirstTakes::Likely,
            _ if rests_as_number => FirstTakes::Likely,
            share => {
                self.failed.store(share - FADES, Relaxed);
                FirstTakes::Unlikely
            }
        }
    }
}
