//! The local bucket: a token bucket in memory with one worker's share of a limit.
//!
//! The share has a capacity of `max(1, ⌊capacity ÷ workers⌋)` and the rate `rate ÷ workers`. All workers together admit at
//! most `max(capacity, workers) + rate × w` in any window `w` of an outage.

use topup_wire::{
    bucket::Pace,
    limit::{Limit, Supply},
};

use crate::machine::Micros;

/// One worker's share of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    capacity: u64,
    /// Units that come in a µs.
    per_micro: u64,
    /// Units of a token.
    token: u128,
}

/// A bucket with a share. It counts what is missing, in units of its share, so that no time is lost to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalBucket {
    share: Share,
    missing: u128,
    /// The part of `missing` that was missing at the begin. The bucket in Redis has counted it.
    counted: u128,
    at: Micros,
    /// Tokens that Redis was charged for.
    charged: u64,
}

// === impl Share ===

impl Share {
    /// The share of one of `workers` workers. A calendar quota has no rate, so its share is not refilled. Windows count as
    /// their slowest rule does: its tokens, spread over its length.
    pub(crate) fn of(limit: &Limit, workers: u64) -> Self {
        let pace = match limit.terms.supply {
            Supply::Windows(windows) => {
                let paces =
                    windows.rules().iter().map(|rule| Pace { n: rule.tokens().get(), p: rule.micros() });
                // n / p < m / q, without rounding.
                let slower = |one: &Pace, other: &Pace| {
                    (u128::from(one.n) * u128::from(other.p)).cmp(&(u128::from(other.n) * u128::from(one.p)))
                };
                paces.min_by(slower).unwrap_or(Pace { n: 0, p: 1 })
            }
            supply => supply.pace(),
        };
        Self::new(limit.terms.capacity.get(), pace, workers)
    }

    /// The share of one of `workers` workers in a bucket.
    pub(crate) fn new(capacity: u64, Pace { n, p }: Pace, workers: u64) -> Self {
        let workers = workers.max(1);
        let capacity = (capacity / workers).max(1);
        Self { capacity, per_micro: n, token: u128::from(p.max(1)) * u128::from(workers) }
    }
}

// === impl LocalBucket ===

impl LocalBucket {
    /// A bucket with its share of a limit's `tokens` of `capacity`: as full as the bucket in Redis was when it was last
    /// heard of.
    pub(crate) fn new(share: Share, tokens: u64, capacity: u64, now: Micros) -> Self {
        let full = u128::from(share.capacity) * share.token;
        let part = full.saturating_mul(u128::from(tokens.min(capacity))) / u128::from(capacity.max(1));
        let missing = full.saturating_sub(part);
        Self { share, missing, counted: missing, at: now, charged: 0 }
    }

    /// Takes `count` tokens, all or nothing. The error is the time until they would be there, in µs; `None` if never.
    pub(crate) fn take(&mut self, count: u64, now: Micros) -> Result<(), Option<Micros>> {
        self.refill(now);
        let wanted = self.missing.saturating_add(u128::from(count).saturating_mul(self.share.token));
        let full = u128::from(self.share.capacity) * self.share.token;
        match wanted.checked_sub(full) {
            None | Some(0) => {
                self.missing = wanted;
                Ok(())
            }
            Some(_) if count > self.share.capacity || self.share.per_micro == 0 => Err(None),
            Some(over) => {
                Err(Some(Micros::try_from(over.div_ceil(self.share.per_micro.into())).unwrap_or(Micros::MAX)))
            }
        }
    }

    /// Gives `count` tokens back.
    pub(crate) fn put_back(&mut self, count: u64) {
        self.missing = self.missing.saturating_sub(u128::from(count) * self.share.token);
    }

    /// Tokens to take from the bucket in Redis: those that were taken here, and that time has not brought back. Each call
    /// tells new ones only.
    pub(crate) fn charge(&mut self, now: Micros) -> u64 {
        self.refill(now);
        let taken = self.missing.saturating_sub(self.counted).div_ceil(self.share.token);
        let owed = u64::try_from(taken).unwrap_or(u64::MAX).saturating_sub(self.charged);
        self.charged += owed;
        owed
    }

    /// Whether nothing is missing, so that the bucket may be forgotten.
    pub(crate) fn is_full(&mut self, now: Micros) -> bool {
        self.refill(now);
        self.missing == 0
    }

    fn refill(&mut self, now: Micros) {
        let elapsed = now.saturating_sub(self.at);
        let came = u128::from(elapsed) * u128::from(self.share.per_micro);
        self.missing = self.missing.saturating_sub(came);
        self.counted = self.counted.saturating_sub(came);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Micros = 1_000_000;

    fn share(capacity: u64, n: u64, p: u64, workers: u64) -> Share {
        Share {
            capacity: (capacity / workers).max(1),
            per_micro: n,
            token: u128::from(p) * u128::from(workers),
        }
    }

    proptest! {
        /// Law 1 for all workers of an outage together.
        #[test]
        fn workers_together_stay_below_capacity_and_rate(
            capacity in 1_u64..50, n in 1_u64..20, p in 1_u64..20_000, workers in 1_u64..9,
            takes in prop::collection::vec((0_u64..9, 0_u64..5_000, 1_u64..4), 1..400),
        ) {
            let mut buckets = vec![LocalBucket::new(share(capacity, n, p, workers), capacity, capacity, 0); workers as usize];
            let (mut now, mut admitted) = (0, 0);
            for (worker, later, count) in takes {
                now += later;
                if buckets[(worker % workers) as usize].take(count, now).is_ok() {
                    admitted += count;
                }
                let came = u128::from(n) * u128::from(now) / u128::from(p);
                prop_assert!(u128::from(admitted) <= u128::from(capacity.max(workers)) + came, "{admitted} at {now}");
            }
        }

        #[test]
        fn a_denial_ends_when_it_says_and_not_a_microsecond_before(
            n in 1_u64..2_000, p in 1_u64..2_000_000, workers in 1_u64..9, count in 1_u64..3,
        ) {
            let mut bucket = LocalBucket::new(share(30, n, p, workers), 0, 30, 0);
            let wait = bucket.take(count, 0).unwrap_err().unwrap();
            prop_assert!(LocalBucket::new(share(30, n, p, workers), 0, 30, 0).take(count, wait - 1).is_err());
            prop_assert!(bucket.take(count, wait).is_ok());
        }
    }

    #[test]
    fn it_begins_as_full_as_the_bucket_in_redis_was() {
        // 100/s and 40 tokens for 4 workers: 10 tokens and 25/s each.
        for (tokens, granted) in [(40, 10), (20, 5), (0, 0)] {
            let mut bucket = LocalBucket::new(share(40, 1, 10_000, 4), tokens, 40, 0);
            assert_eq!((0..40).filter(|_| bucket.take(1, 0).is_ok()).count(), granted);
            assert_eq!((0..40).filter(|_| bucket.take(1, SECOND / 5).is_ok()).count(), 5);
        }
    }

    #[test]
    fn it_charges_once_and_only_what_time_has_not_brought_back() {
        let mut bucket = LocalBucket::new(share(40, 1, 10_000, 4), 40, 40, 0);
        for _ in 0..10 {
            bucket.take(1, 0).unwrap();
        }
        assert_eq!(bucket.charge(SECOND / 5), 5);
        assert_eq!(bucket.charge(SECOND / 5), 0);
        bucket.take(2, SECOND / 5).unwrap();
        assert_eq!((bucket.charge(SECOND / 5), bucket.is_full(SECOND)), (2, true));
        // Half empty at the begin, which Redis knows.
        let mut bucket = LocalBucket::new(share(40, 1, 10_000, 4), 20, 40, 0);
        bucket.take(3, 0).unwrap();
        assert_eq!(bucket.charge(0), 3);
    }

    #[test]
    fn more_than_a_share_never_comes_and_tokens_can_be_given_back() {
        let mut bucket = LocalBucket::new(share(40, 1, 10_000, 4), 40, 40, 0);
        assert_eq!(bucket.take(11, 0), Err(None));
        bucket.take(10, 0).unwrap();
        bucket.put_back(4);
        assert_eq!((bucket.take(4, 0), bucket.take(1, 0)), (Ok(()), Err(Some(40_000))));
        let mut quota = LocalBucket::new(share(40, 0, 1, 4), 40, 40, 0);
        quota.take(10, 0).unwrap();
        assert_eq!(quota.take(1, 99 * SECOND), Err(None));
    }
}
