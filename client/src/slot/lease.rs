//! Tokens of one bucket taken ahead, spent without a word to Redis.
//!
//! A token in a worker's hands is one the bucket does not hold, so that time could bring another in its place: then the
//! two could be spent at once, and a window would have more than the limit allows. A lease is therefore good only as
//! long as the bucket, were the leased tokens still in it, would not be full (and half the tick that law 1 allows):
//! after that, a full bucket would have lost them. Of a few tokens, a small part of what law 1 allows, that matters
//! little: they are good to the end of the lease.

use std::sync::{
    Arc,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use topup_wire::limit;

use super::{Slot, State};
use crate::{
    client::Client,
    clock::{Micros, micros},
    decision::Decision,
    known::Asked,
};

/// What is left of the tokens taken ahead. Spent by many tasks at once, changed by whoever holds the bucket's state.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    left: AtomicU64,
    /// When the rest must be spent or given back ...
    until: AtomicU64,
    /// ... and when it is too late for that, too: the bucket would have been full, had it still got them.
    sound_until: AtomicU64,
    /// What was published when it was taken.
    epoch: AtomicU64,
    /// Tokens in the bucket, and the most it holds, when it was taken.
    beyond: AtomicU64,
    capacity: AtomicU64,
    /// When so few are left, more are wanted.
    low: AtomicU64,
}

/// What a taker finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// A token; and whether it is time to take more.
    Token(Decision, bool),
    /// Nothing.
    Nothing,
}

/// How much to take ahead: as much as was spent of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appetite {
    /// Tokens of the last lease.
    size: u64,
}

/// Tokens taken ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) tokens: u64,
    pub(super) until: Micros,
    pub(super) sound_until: Micros,
    pub(super) epoch: u64,
    pub(super) beyond: u64,
    pub(super) capacity: u64,
}

// === impl Lease ===

impl Lease {
    /// Whether there is anything to spend, as far as can be told without a clock.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.load(Relaxed) == 0
    }

    /// Tokens left.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Spends one token, if there is one that is good at `now`.
    pub(crate) fn spend(&self, now: Micros, epoch: u64) -> Spent {
        let mut left = self.left.load(Acquire);
        loop {
            if left == 0 || now >= self.until.load(Relaxed) || epoch != self.epoch.load(Relaxed) {
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

    /// Whether what is left is good no longer.
    pub(super) fn is_over(&self, now: Micros, epoch: u64) -> bool {
        !self.is_empty() && (now >= self.until.load(Relaxed) || epoch != self.epoch.load(Relaxed))
    }

    /// Adds tokens. Those there are may be spent before them: all are good as long as the first are.
    pub(super) fn add(&self, taken: Taken) {
        let (mut until, mut sound_until) = (taken.until, taken.sound_until);
        if !self.is_empty() {
            until = until.min(self.until());
            sound_until = sound_until.min(self.sound_until.load(Relaxed));
        }
        self.until.store(until, Relaxed);
        self.sound_until.store(sound_until, Relaxed);
        self.epoch.store(taken.epoch, Relaxed);
        self.beyond.store(taken.beyond, Relaxed);
        self.capacity.store(taken.capacity, Relaxed);
        self.low.store(taken.tokens / 2, Relaxed);
        self.left.fetch_add(taken.tokens, Release);
    }

    /// When what is left can be spent no longer.
    pub(super) fn until(&self) -> Micros {
        self.until.load(Relaxed)
    }

    /// Whether what is left may be given back.
    pub(super) fn is_sound(&self, now: Micros) -> bool {
        now < self.sound_until.load(Relaxed)
    }

    /// Lets what is left be spent until then.
    pub(super) fn extend(&self, until: Micros) {
        self.until.store(until, Relaxed);
    }

    /// Takes out what is left.
    pub(super) fn empty(&self) -> u64 {
        self.left.swap(0, AcqRel)
    }
}

// === impl Slot ===

impl Slot {
    /// How many tokens to take ahead with the command that is about to be sent.
    pub(super) fn wish(&self, state: &mut State, asked: Asked) -> u64 {
        let hungry = std::mem::take(&mut state.hungry);
        if !hungry && state.takers.is_empty() {
            return 0;
        }
        let prospect = match state.placed(asked.epoch).map(|place| place.published.limit.lease) {
            None => None,
            Some(None) => self.for_a_crowd(state, hungry, asked),
            Some(Some(lease)) => {
                if self.lease.is_over(asked.sent, asked.epoch) {
                    state.appetite.left_over(self.lease.empty());
                }
                Some(self.prospect(state, lease, asked))
            }
        };
        let apart = asked.sent - std::mem::replace(&mut state.asked_at, asked.sent).min(asked.sent);
        let Some((good_for, max @ 1..)) = prospect else { return 0 };
        // Only where several takes are to be expected while the tokens are good: else a bare command each is cheaper. As
        // many as come in a quarter of that time, if they come on as they did.
        let left = self.lease.left();
        let spent = state.appetite.size.saturating_sub(left) + state.takers.len() as u64;
        let expected = (good_for / 4).saturating_mul(spent) / apart.max(1);
        if expected == 0 {
            // Whoever tries without waiting comes again; whoever waits has its own.
            return u64::from(hungry && left == 0 && state.takers.is_empty());
        }
        state.appetite.next(left, max, expected)
    }

    /// For how long tokens of a lease taken now would be good, and how many.
    fn prospect(&self, state: &State, lease: limit::Lease, asked: Asked) -> (Micros, u64) {
        let (ttl, max, few) = (micros(lease.ttl()), lease.max(), asked.terms.few());
        let good_for = |tokens| state.known.lent_until(tokens, asked.terms).saturating_sub(asked.sent);
        if few == 0 || good_for(max) >= ttl { (good_for(1).min(ttl), max) } else { (ttl, few.min(max)) }
    }

    /// Keeps `tokens` taken ahead, just now: how many of them.
    pub(super) fn lend(
        self: &Arc<Self>,
        state: &mut State,
        tokens: u64,
        asked: Asked,
        client: &Client,
    ) -> u64 {
        let lease = state.placed(asked.epoch).map(|place| place.published.limit.lease);
        let (until, sound_until) = match lease {
            Some(lease) if tokens > 0 => match lease {
                None => (self.keep_for_a_crowd(asked, client), Micros::MAX),
                Some(lease) => self.leased_until(state, lease, tokens, asked),
            },
            _ => return 0,
        };
        let (beyond, capacity) = (state.known.tokens(), state.known.capacity());
        self.lease.add(Taken { tokens, until, sound_until, epoch: asked.epoch, beyond, capacity });
        self.set_reclaim(state, client);
        tokens
    }

    /// Until when `tokens` of a lease are good, and until when they may be given back.
    fn leased_until(
        &self,
        state: &State,
        lease: limit::Lease,
        tokens: u64,
        asked: Asked,
    ) -> (Micros, Micros) {
        let end = asked.sent.saturating_add(micros(lease.ttl()));
        if tokens.saturating_add(self.lease.left()) <= asked.terms.few() {
            return (end, Micros::MAX);
        }
        let full = state.known.lent_until(tokens, asked.terms);
        (end.min(full), full)
    }
}

// === impl Appetite ===

impl Appetite {
    /// How many tokens to take ahead, with `left` of the last ones: what is expected, or more than were enough for too
    /// short a time.
    pub(super) fn next(&mut self, left: u64, max: u64, expected: u64) -> u64 {
        self.size = self.size.saturating_mul(4).max(expected).clamp(1, max);
        self.size.min(max - left.min(max))
    }

    /// So many were not spent in time.
    pub(super) fn left_over(&mut self, left: u64) {
        self.size = self.size.saturating_sub(left) / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(tokens: u64, until: Micros) -> Taken {
        Taken { tokens, until, sound_until: until, epoch: 1, beyond: 7, capacity: 100 }
    }

    #[test]
    fn each_token_is_spent_once_and_in_time() {
        let lease = Lease::default();
        lease.add(taken(3, 100));
        let remaining = |spent| match spent {
            Spent::Token(decision, _) => Some(decision.remaining()),
            Spent::Nothing => None,
        };
        assert_eq!(remaining(lease.spend(99, 1)), Some(9));
        assert_eq!(lease.spend(99, 2), Spent::Nothing, "published anew");
        assert_eq!(lease.spend(100, 1), Spent::Nothing, "too late");
        assert_eq!(remaining(lease.spend(99, 1)), Some(8));
        assert_eq!(remaining(lease.spend(99, 1)), Some(7));
        assert_eq!(lease.spend(99, 1), Spent::Nothing, "none is left");
    }

    #[test]
    fn tokens_of_different_leases_are_good_as_long_as_the_first() {
        let lease = Lease::default();
        lease.add(taken(3, 100));
        lease.add(taken(3, 900));
        assert!(lease.is_over(100, 1));
        assert_eq!(lease.empty(), 6);
        lease.add(taken(3, 900));
        assert!(!lease.is_over(899, 1));
    }

    #[test]
    fn tasks_at_once_never_spend_more_than_there_is() {
        let lease = Lease::default();
        lease.add(taken(10_000, 100));
        let spent: usize = std::thread::scope(|scope| {
            let spender = || (0..5_000).filter(|_| lease.spend(0, 1) != Spent::Nothing).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(spender)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((spent, lease.left()), (10_000, 0));
    }

    #[test]
    fn what_is_taken_ahead_follows_what_is_spent() {
        let mut appetite = Appetite::default();
        let sizes: Vec<u64> = (0..8).map(|_| appetite.next(0, 50, 0)).collect();
        assert_eq!(sizes, [1, 4, 16, 50, 50, 50, 50, 50]);
        assert_eq!(Appetite::default().next(0, 50, 30), 30, "what is expected");
        assert_eq!(appetite.next(30, 50, 0), 20, "no more than so many in one hand");
        appetite.left_over(48);
        assert_eq!(appetite.next(0, 50, 0), 4);
        for _ in 0..8 {
            appetite.left_over(1);
        }
        assert_eq!(appetite.next(0, 50, 0), 1);
    }
}
