//! Holds: tokens whose number is known only after their use, and that are taken before at an estimate.

mod remember;
mod settle;

use std::{
    hash::BuildHasher,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    bucket::Bucket,
    decision::Decision,
    machine::Micros,
    multi_decision::{LimitDecision, MultiDecision},
    shell::BucketEntry,
};

/// The beginning of all IDs of this process, and the number of the next one.
static IDS: LazyLock<(u64, AtomicU64)> = LazyLock::new(|| {
    let random = std::hash::RandomState::new().hash_one(std::process::id());
    (random, AtomicU64::new(0))
});

/// Tokens that were taken at an estimate, until [`Hold::settle`] says how many were used: from
/// [`Bucket::reserve_cost`].
///
/// A hold that is dropped unsettled is abandoned. Its limit's `on_abandon` says what becomes of the tokens: `charge`
/// leaves them taken, `refund` puts them back at once. The same holds for a process that dies, after the limit's
/// `hold_ttl`.
#[must_use = "a hold that is dropped is abandoned"]
#[derive(Debug)]
pub struct Hold {
    bucket: Bucket,
    entry: Arc<BucketEntry>,
    pub(crate) decision: Decision,
    estimate: u64,
    id: String,
    is_remembered: bool,
    /// The key is exempt: it costs nothing.
    pub(crate) is_exempt: bool,
    /// When it was first settled, by the worker's clock, and the tokens used.
    first_try: Option<(Micros, u64)>,
    settlement: Option<Settlement>,
}

/// The result of [`Hold::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// Tokens that the hold has cost in all: those used, without `uncharged`.
    pub charged: u64,
    /// Tokens used that were not charged: the bucket would have been in deeper debt than the limit's `max_debt`.
    pub uncharged: u64,
}

// === impl Hold ===

impl Hold {
    /// A hold of nothing yet.
    pub(crate) fn new(bucket: &Bucket, entry: &Arc<BucketEntry>, estimate: u64, is_remembered: bool) -> Self {
        let (random, next) = &*IDS;
        Self {
            bucket: bucket.clone(),
            entry: entry.clone(),
            decision: Decision::Denied { remaining: 0, capacity: 0, retry_after: Duration::ZERO },
            estimate,
            id: format!("{random:016x}-{:x}", next.fetch_add(1, Relaxed)),
            is_remembered,
            is_exempt: false,
            first_try: None,
            settlement: None,
        }
    }

    /// The hold of one bucket whose take was a part of `decided`; `None` if it has no part in it. A key without a bucket
    /// is exempt or denied.
    pub(crate) fn of(
        decided: &MultiDecision,
        bucket: &Bucket,
        estimate: u64,
        is_without: bool,
    ) -> Option<Self> {
        let entry = bucket.entry().ok()?;
        let name = entry.name().live();
        let is_it = |limit: &&LimitDecision| limit.limit() == name.as_str() && limit.key() == entry.key();
        let decision = decided.limits().iter().find(is_it)?.decision();
        let published = bucket.last_published(entry);
        let is_remembered = published.is_some_and(|published| published.remembers_holds(entry.key()));
        let mut hold = Self::new(bucket, entry, estimate, is_remembered);
        hold.decision = decision;
        hold.is_exempt = is_without && matches!(decision, Decision::Allowed { .. });
        Some(hold)
    }

    /// Tokens that were asked for.
    #[cfg(feature = "tower")]
    pub(crate) const fn estimate(&self) -> u64 {
        self.estimate
    }

    /// The runtime of its client.
    #[cfg(feature = "tower")]
    pub(crate) fn runtime(&self) -> tokio::runtime::Handle {
        self.bucket.handle().shared().runtime.clone()
    }

    /// The decision on the estimate.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// The ID of the hold, for logs. No two holds have the same.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the caller may go on.
    pub const fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Time until a denied estimate would be allowed, if no other caller takes meanwhile; `None` if it was.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }

    /// Tokens that the hold has: the estimate, or 0 if nothing was taken for it.
    pub const fn tokens(&self) -> u64 {
        if matches!(self.decision, Decision::Allowed { .. }) { self.estimate } else { 0 }
    }
}
