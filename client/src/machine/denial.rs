//! Denials without a command to Redis, and the cache from which many tasks read one without a lock.

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
    time::Duration,
};

use topup_wire::reply::Settled;

use super::Micros;
use crate::decision::Decision;

/// A denial without a command to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Tokens in the bucket.
    pub tokens: u64,
    /// Most it holds.
    pub capacity: u64,
    /// µs until the take would be allowed.
    pub wait: Micros,
}

/// A denial with its instants, for the denial cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) epoch: u64,
    pub(super) until: Micros,
    pub(super) promised_at: Micros,
    pub(super) tokens: u64,
    pub(super) capacity: u64,
}

/// The denial of takes of one token, with its end. Many tasks read it. It is written under the bucket's lock.
#[derive(Debug, Default)]
pub(super) struct DenialCache {
    /// 0 while there is no denial, and while the other fields are written.
    until: AtomicU64,
    epoch: AtomicU64,
    promised_at: AtomicU64,
    tokens: AtomicU64,
    capacity: AtomicU64,
}

// === impl Denial ===

impl From<&Settled> for Denial {
    fn from(&Settled { tokens, capacity, wait, .. }: &Settled) -> Self {
        Self { tokens, capacity, wait }
    }
}

impl From<Denial> for Decision {
    fn from(denial: Denial) -> Self {
        let Denial { tokens: remaining, capacity, wait } = denial;
        Self::Denied { remaining, capacity, retry_after: Duration::from_micros(wait) }
    }
}

// === impl DenialCache ===

impl DenialCache {
    /// Whether there is no denial. Reads no clock, so that a denial may be over all the same.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.until.load(Relaxed) == 0
    }

    /// The denial at `now`.
    #[inline]
    pub(super) fn denial(&self, now: Micros, epoch: u64) -> Option<Denial> {
        let until = self.until.load(Acquire);
        if now >= until || epoch != self.epoch.load(Relaxed) {
            return None;
        }
        let (tokens, capacity) = (self.tokens.load(Relaxed), self.capacity.load(Relaxed));
        let wait = self.promised_at.load(Relaxed).saturating_sub(now);
        // If it was written meanwhile, the fields may be of two denials.
        fence(Acquire);
        (self.until.load(Relaxed) == until).then_some(Denial { tokens, capacity, wait })
    }

    /// Replaces the denial.
    pub(super) fn set(&self, denied: Option<Denied>) {
        let Denied { epoch, until, promised_at, tokens, capacity } = denied.unwrap_or_default();
        let is_same = |field: &AtomicU64, value| field.load(Relaxed) == value;
        let same_fields = || {
            let shown = is_same(&self.promised_at, promised_at) && is_same(&self.tokens, tokens);
            shown && is_same(&self.epoch, epoch) && is_same(&self.capacity, capacity)
        };
        if is_same(&self.until, until) && (until == 0 || same_fields()) {
            return;
        }
        self.until.store(0, Relaxed);
        fence(Release);
        self.epoch.store(epoch, Relaxed);
        self.promised_at.store(promised_at, Relaxed);
        self.tokens.store(tokens, Relaxed);
        self.capacity.store(capacity, Relaxed);
        self.until.store(until, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(until: Micros) -> Denied {
        Denied { epoch: 1, until, promised_at: until + 10, tokens: until / 2, capacity: until / 2 }
    }

    #[test]
    fn a_denial_is_told_until_its_time_and_under_its_epoch() {
        let cache = DenialCache::default();
        assert!(cache.is_empty() && cache.denial(0, 0).is_none());
        cache.set(Some(denied(100)));
        assert_eq!(cache.denial(99, 1), Some(Denial { tokens: 50, capacity: 50, wait: 11 }));
        assert_eq!(cache.denial(100, 1), None, "too late");
        assert_eq!(cache.denial(99, 2), None, "published anew");
        cache.set(Some(Denied { promised_at: 120, tokens: 0, ..denied(100) }));
        assert_eq!(
            cache.denial(99, 1),
            Some(Denial { tokens: 0, capacity: 50, wait: 21 }),
            "of the same end"
        );
        cache.set(None);
        assert!(cache.is_empty() && cache.denial(0, 1).is_none());
    }

    #[test]
    fn a_reader_beside_a_writer_reads_all_of_one_denial_or_nothing() {
        let cache = DenialCache::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..200_000).for_each(|i| cache.set(Some(denied(2 * i)))));
            let mut seen = 0;
            while !writer.is_finished() || seen == 0 {
                if let Some(Denial { tokens, capacity, wait }) = cache.denial(1, 1) {
                    assert_eq!((tokens, wait), (capacity, 2 * tokens + 9));
                    seen += 1;
                }
            }
        });
    }
}
