//! The lock-free part of a hot bucket: prefetched tokens, and a denial.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use once_cell::race::OnceBox;

use super::{
    Micros,
    denial::{Denial, DenialCache, Denied},
};
use crate::decision::Decision;

/// The lock-free part of a bucket. Most buckets are neither hot nor denied, so `[Hot; 0]` makes it at its first use. With
/// `[Hot; 1]` it is in place: among very many buckets, a take then waits for main memory once, not twice.
#[derive(Debug, Default)]
pub struct HotCell<P: ?Sized = [Hot]> {
    later: OnceBox<Aligned>,
    in_place: P,
}

/// Prefetched tokens, and a denial.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Hot {
    prefetched: Prefetched,
    denial: DenialCache,
}

/// Aligned, so that a take waits for one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Aligned(Hot);

/// Prefetched tokens. Many tasks spend them at once. All other changes are under the bucket's lock.
#[derive(Debug, Default)]
struct Prefetched {
    left: AtomicU64,
    /// When those left are no longer good.
    until: AtomicU64,
    epoch: AtomicU64,
    /// Tokens in the bucket beside them, and its capacity, at the last prefetch.
    beyond: AtomicU64,
    capacity: AtomicU64,
    /// With this many left, it is time to prefetch more.
    low: AtomicU64,
}

/// The answer of a [`HotCell`] to a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// The tokens. With `true`, it is time to prefetch more.
    Tokens(Decision, bool),
    /// A cached denial.
    Denied(Denial),
    /// Neither.
    Nothing,
}

/// Tokens of one prefetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) tokens: u64,
    pub(super) until: Micros,
    pub(super) epoch: u64,
    pub(super) beyond: u64,
    pub(super) capacity: u64,
    pub(super) low: u64,
}

// === impl HotCell ===

impl<P: AsRef<[Hot]> + ?Sized> HotCell<P> {
    /// Whether there may be a token or a denial. Reads no clock.
    #[inline]
    pub fn may_tell(&self) -> bool {
        self.get().is_some_and(|hot| hot.prefetched.left.load(Relaxed) > 0 || !hot.denial.is_empty())
    }

    /// Spends a prefetched token, or returns the denial.
    #[inline]
    pub fn spend(&self, now: Micros, epoch: u64) -> Spent {
        let Some(hot) = self.get() else { return Spent::Nothing };
        match hot.prefetched.spend(1, now, epoch) {
            Spent::Nothing => hot.denial.denial(now, epoch).map_or(Spent::Nothing, Spent::Denied),
            spent => spent,
        }
    }

    /// Spends `count` prefetched tokens, or none.
    pub(super) fn spend_tokens(&self, count: u64, now: Micros, epoch: u64) -> Spent {
        self.get().map_or(Spent::Nothing, |hot| hot.prefetched.spend(count, now, epoch))
    }

    /// Prefetched tokens, good or not.
    pub fn prefetched(&self) -> u64 {
        self.get().map_or(0, |hot| hot.prefetched.left.load(Relaxed))
    }

    /// Prefetched tokens that are good at `now`.
    pub fn good(&self, now: Micros, epoch: u64) -> u64 {
        self.get().map_or(0, |hot| {
            if hot.prefetched.is_good(now, epoch) { hot.prefetched.left.load(Relaxed) } else { 0 }
        })
    }

    /// When the prefetched tokens are no longer good.
    pub(super) fn good_until(&self) -> Micros {
        self.get().map_or(0, |hot| hot.prefetched.until.load(Relaxed))
    }

    /// Whether there are prefetched tokens that are no longer good.
    pub(super) fn is_over(&self, now: Micros, epoch: u64) -> bool {
        self.get()
            .is_some_and(|hot| hot.prefetched.left.load(Relaxed) > 0 && !hot.prefetched.is_good(now, epoch))
    }

    pub(super) fn add(&self, added: Added) {
        self.make().prefetched.add(added);
    }

    /// Sets the end of the prefetched tokens.
    pub(super) fn extend(&self, until: Micros) {
        if let Some(hot) = self.get() {
            hot.prefetched.until.store(until, Relaxed);
        }
    }

    /// Removes all prefetched tokens, and returns their number.
    pub(super) fn empty(&self) -> u64 {
        self.get().map_or(0, |hot| hot.prefetched.left.swap(0, AcqRel))
    }

    /// Replaces the cached denial.
    pub(super) fn set_denial(&self, denied: Option<Denied>) {
        match (self.get(), denied) {
            (Some(hot), denied) => hot.denial.set(denied),
            (None, Some(_)) => self.make().denial.set(denied),
            (None, None) => {}
        }
    }

    #[inline]
    fn get(&self) -> Option<&Hot> {
        self.in_place.as_ref().first().or_else(|| self.later.get().map(|Aligned(hot)| hot))
    }

    fn make(&self) -> &Hot {
        self.get().unwrap_or_else(|| &self.later.get_or_init(Box::default).0)
    }
}

// === impl Prefetched ===

impl Prefetched {
    #[inline]
    fn is_good(&self, now: Micros, epoch: u64) -> bool {
        now < self.until.load(Relaxed) && epoch == self.epoch.load(Relaxed)
    }

    #[inline]
    fn spend(&self, count: u64, now: Micros, epoch: u64) -> Spent {
        let spend = |left: u64| left.checked_sub(count).filter(|_| self.is_good(now, epoch));
        let Ok(before) = self.left.fetch_update(AcqRel, Acquire, spend) else { return Spent::Nothing };
        let (left, low) = (before - count, self.low.load(Relaxed));
        let remaining = self.beyond.load(Relaxed).saturating_add(left);
        let decision = Decision::Allowed { remaining, capacity: self.capacity.load(Relaxed) };
        Spent::Tokens(decision, before > low && left <= low)
    }

    fn add(&self, added: Added) {
        let Added { tokens, until, epoch, beyond, capacity, low } = added;
        self.until.store(until, Relaxed);
        self.epoch.store(epoch, Relaxed);
        self.beyond.store(beyond, Relaxed);
        self.capacity.store(capacity, Relaxed);
        self.low.store(low, Relaxed);
        self.left.fetch_add(tokens, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(tokens: u64, until: Micros) -> Added {
        Added { tokens, until, epoch: 1, beyond: 7, capacity: 100, low: 0 }
    }

    fn each_token_is_spent_once_and_in_time(hot: &HotCell) {
        assert!(!hot.may_tell());
        hot.add(added(3, 100));
        let remaining = |count, now, epoch| match hot.spend_tokens(count, now, epoch) {
            Spent::Tokens(decision, _) => Some(decision.remaining()),
            _ => None,
        };
        assert_eq!(remaining(1, 99, 1), Some(9));
        assert_eq!(remaining(1, 99, 2), None, "published anew");
        assert_eq!(remaining(1, 100, 1), None, "too late");
        assert_eq!(remaining(3, 99, 1), None, "all or nothing");
        assert_eq!(remaining(1, 99, 1), Some(8));
        assert_eq!(hot.empty(), 1);
        assert_eq!(remaining(1, 99, 1), None, "none is left");
        hot.add(added(10, 100));
        assert_eq!(remaining(4, 99, 1), Some(13));
        assert_eq!(hot.prefetched(), 6);
    }

    #[test]
    fn each_token_is_spent_once_and_in_time_wherever_it_is_kept() {
        each_token_is_spent_once_and_in_time(&HotCell::<[Hot; 0]>::default());
        each_token_is_spent_once_and_in_time(&HotCell::<[Hot; 1]>::default());
    }

    #[test]
    fn tasks_at_once_never_spend_more_than_there_is() {
        let hot = HotCell::<[Hot; 0]>::default();
        hot.add(added(10_000, 100));
        let spent: usize = std::thread::scope(|scope| {
            let spends = |count| matches!(hot.spend_tokens(count, 0, 1), Spent::Tokens(..));
            let spender = move |count| (0..5_000).filter(|_| spends(count)).count() * count as usize;
            let threads: Vec<_> = [1, 1, 2, 5].map(|count| scope.spawn(move || spender(count))).into();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((spent, hot.prefetched()), (10_000, 0));
    }
}
