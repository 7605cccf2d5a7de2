//! What takers of a hot bucket read without a lock: tokens in hand, and a denial.

use std::sync::{
    OnceLock,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use super::{
    Micros,
    denial::{Denial, DenialCache},
    estimate::Denied,
};
use crate::decision::Decision;

/// The lock-free part of a bucket, made when it is first needed: most buckets are neither hot nor denied.
#[derive(Debug, Default)]
pub struct HotCell(OnceLock<Box<Hot>>);

/// Aligned, so that a take of very many buckets waits for main memory once.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Hot {
    stock: Stock,
    denial: DenialCache,
}

/// Tokens taken ahead and not spent yet. Spent by many tasks at once, changed under the bucket's lock.
#[derive(Debug, Default)]
struct Stock {
    left: AtomicU64,
    /// When the rest is good no longer.
    until: AtomicU64,
    epoch: AtomicU64,
    /// Tokens in the bucket beside them, and its capacity, when tokens were last added.
    beyond: AtomicU64,
    capacity: AtomicU64,
    /// When so few are left, it is time to take more.
    low: AtomicU64,
}

/// What a taker finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// A token. `true`: it is time to take more.
    Token(Decision, bool),
    /// A denial from memory.
    Denied(Denial),
    /// Neither.
    Nothing,
}

/// Tokens added to a stock.
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

impl HotCell {
    /// Whether there may be anything to tell, as far as can be said without a clock.
    #[inline]
    pub fn may_tell(&self) -> bool {
        self.0.get().is_some_and(|hot| hot.stock.left.load(Relaxed) > 0 || !hot.denial.is_empty())
    }

    /// Spends a token in hand, or tells the denial.
    #[inline]
    pub fn spend(&self, now: Micros, epoch: u64) -> Spent {
        let Some(hot) = self.0.get() else { return Spent::Nothing };
        match hot.stock.spend(now, epoch) {
            Spent::Nothing => hot.denial.denial(now, epoch).map_or(Spent::Nothing, Spent::Denied),
            spent => spent,
        }
    }

    /// Spends a token in hand.
    pub(super) fn spend_token(&self, now: Micros, epoch: u64) -> Option<Decision> {
        match self.0.get()?.stock.spend(now, epoch) {
            Spent::Token(decision, _) => Some(decision),
            _ => None,
        }
    }

    /// Tokens in hand.
    pub fn in_hand(&self) -> u64 {
        self.0.get().map_or(0, |hot| hot.stock.left.load(Relaxed))
    }

    /// Tokens in hand that are good at `now`.
    pub fn good(&self, now: Micros, epoch: u64) -> u64 {
        self.0
            .get()
            .map_or(0, |hot| if hot.stock.is_good(now, epoch) { hot.stock.left.load(Relaxed) } else { 0 })
    }

    /// When the tokens in hand are good no longer.
    pub(super) fn good_until(&self) -> Micros {
        self.0.get().map_or(0, |hot| hot.stock.until.load(Relaxed))
    }

    /// Whether tokens are in hand that are good no longer.
    pub(super) fn is_over(&self, now: Micros, epoch: u64) -> bool {
        self.0.get().is_some_and(|hot| hot.stock.left.load(Relaxed) > 0 && !hot.stock.is_good(now, epoch))
    }

    pub(super) fn add(&self, added: Added) {
        self.make().stock.add(added);
    }

    /// Lets what is in hand be spent until then.
    pub(super) fn extend(&self, until: Micros) {
        if let Some(hot) = self.0.get() {
            hot.stock.until.store(until, Relaxed);
        }
    }

    /// Takes out what is in hand.
    pub(super) fn empty(&self) -> u64 {
        self.0.get().map_or(0, |hot| hot.stock.left.swap(0, AcqRel))
    }

    /// Sets the denial that is told from now on.
    pub(super) fn set_denial(&self, denied: Option<Denied>) {
        match (self.0.get(), denied) {
            (Some(hot), denied) => hot.denial.set(denied),
            (None, Some(_)) => self.make().denial.set(denied),
            (None, None) => {}
        }
    }

    fn make(&self) -> &Hot {
        self.0.get_or_init(Box::default)
    }
}

// === impl Stock ===

impl Stock {
    fn is_good(&self, now: Micros, epoch: u64) -> bool {
        now < self.until.load(Relaxed) && epoch == self.epoch.load(Relaxed)
    }

    #[inline]
    fn spend(&self, now: Micros, epoch: u64) -> Spent {
        let mut left = self.left.load(Acquire);
        loop {
            if left == 0 || !self.is_good(now, epoch) {
                return Spent::Nothing;
            }
            match self.left.compare_exchange_weak(left, left - 1, AcqRel, Acquire) {
                Ok(_) => break,
                Err(other) => left = other,
            }
        }
        let remaining = self.beyond.load(Relaxed).saturating_add(left - 1);
        let decision = Decision::Allowed { remaining, capacity: self.capacity.load(Relaxed) };
        Spent::Token(decision, left - 1 == self.low.load(Relaxed))
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

    #[test]
    fn each_token_is_spent_once_and_in_time() {
        let hot = HotCell::default();
        assert!(!hot.may_tell());
        hot.add(added(3, 100));
        let remaining = |now, epoch| hot.spend_token(now, epoch).map(|decision| decision.remaining());
        assert_eq!(remaining(99, 1), Some(9));
        assert_eq!(remaining(99, 2), None, "published anew");
        assert_eq!(remaining(100, 1), None, "too late");
        assert_eq!(remaining(99, 1), Some(8));
        assert_eq!(hot.empty(), 1);
        assert_eq!(remaining(99, 1), None, "none is left");
    }

    #[test]
    fn tasks_at_once_never_spend_more_than_there_is() {
        let hot = HotCell::default();
        hot.add(added(10_000, 100));
        let spent: usize = std::thread::scope(|scope| {
            let spender = || (0..5_000).filter(|_| hot.spend_token(0, 1).is_some()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(spender)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((spent, hot.in_hand()), (10_000, 0));
    }
}
