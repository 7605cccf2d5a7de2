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

use super::{Slot, State, appetite::Prospect};
use crate::{
    client::Client,
    clock::{Micros, micros},
    decision::Decision,
    known::Asked,
};

/// What is left of the tokens taken ahead. Spent by many tasks at once, changed by whoever holds the bucket's state.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Lease {
    left: AtomicU64,
    /// When the rest must be spent or given back.
    until: AtomicU64,
    /// What was published when it was taken.
    epoch: AtomicU64,
    /// Tokens in the bucket, and the most it holds, when it was taken.
    beyond: AtomicU64,
    capacity: AtomicU64,
    /// When so few are left, more are wanted.
    low: AtomicU64,
    /// When it is too late to give the rest back: the bucket would have been full, had it still got them. No taker asks.
    sound_until: AtomicU64,
}

/// What a taker finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// A token; and whether it is time to take more.
    Token(Decision, bool),
    /// Nothing.
    Nothing,
}

/// So many tokens are good for so long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Good {
    tokens: u64,
    until: Micros,
    sound_until: Micros,
}

/// Tokens taken ahead.
#[derive(Clone, Copy, Debug)]
struct Taken {
    good: Good,
    epoch: u64,
    beyond: u64,
    capacity: u64,
    /// When so few are left, more are wanted.
    low: u64,
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
    #[inline]
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
    fn add(&self, taken: Taken) {
        let Taken { good: Good { tokens, mut until, mut sound_until }, epoch, beyond, capacity, low } = taken;
        if !self.is_empty() {
            until = until.min(self.until());
            sound_until = sound_until.min(self.sound_until.load(Relaxed));
        }
        self.until.store(until, Relaxed);
        self.sound_until.store(sound_until, Relaxed);
        self.epoch.store(epoch, Relaxed);
        self.beyond.store(beyond, Relaxed);
        self.capacity.store(capacity, Relaxed);
        self.low.store(low, Relaxed);
        self.left.fetch_add(tokens, Release);
    }

    /// Once no more is left than was added last, that is how long it is good: what was there before has been spent.
    fn renew(&self, last: Good) {
        if (1..=last.tokens).contains(&self.left()) {
            self.sound_until.store(last.sound_until, Relaxed);
            self.until.store(last.until, Relaxed);
        }
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
                self.lease.renew(state.last);
                if self.lease.is_over(asked.sent, asked.epoch) {
                    state.appetite.gone(self.lease.empty());
                }
                Some(self.prospect(state, lease, asked))
            }
        };
        let (left, takers) = (self.lease.left(), state.takers.len() as u64);
        state.appetite.look(asked.sent, left, takers);
        let wish = prospect.map_or(0, |prospect| state.appetite.next(prospect));
        if wish == 0 {
            // Whoever tries without waiting comes again; whoever waits has its own.
            return u64::from(prospect.is_some() && hungry && left == 0 && takers == 0);
        }
        wish
    }

    /// How many tokens may be taken now, and for how long they would be good.
    fn prospect(&self, state: &State, lease: limit::Lease, asked: Asked) -> Prospect {
        let (ttl, max, few) = (micros(lease.ttl()), lease.max(), asked.terms.few());
        // What is taken ahead delays nothing, but what is taken for those who wait does.
        let held = state.known.tokens().saturating_sub(state.takers.len() as u64);
        let good_for = state.known.lent_until(held, asked.terms).saturating_sub(asked.sent);
        let (good_for, max) =
            if few == 0 || good_for >= ttl { (good_for.min(ttl), max) } else { (ttl, few.min(max)) };
        Prospect::Leased { good_for, max, held }
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
        let (good, low) = match lease {
            Some(lease) if tokens > 0 => match lease {
                None => {
                    let until = self.keep_for_a_crowd(asked, client);
                    (Good { tokens, until, sound_until: Micros::MAX }, tokens / 2)
                }
                Some(lease) => {
                    let took = client.shared().clock.now().saturating_sub(asked.sent);
                    (self.leased(state, lease, tokens, asked), state.appetite.low(tokens, took))
                }
            },
            _ => return 0,
        };
        let (beyond, capacity) = (state.known.tokens(), state.known.capacity());
        state.last = good;
        state.appetite.come(tokens);
        self.lease.add(Taken { good, epoch: asked.epoch, beyond, capacity, low });
        self.set_reclaim(state, client);
        tokens
    }

    /// For how long `tokens` of a lease are good, and until when they may be given back.
    fn leased(&self, state: &State, lease: limit::Lease, tokens: u64, asked: Asked) -> Good {
        let end = asked.sent.saturating_add(micros(lease.ttl()));
        if tokens.saturating_add(self.lease.left()) <= asked.terms.few() {
            return Good { tokens, until: end, sound_until: Micros::MAX };
        }
        let full = state.known.lent_until(state.known.tokens().saturating_add(tokens), asked.terms);
        Good { tokens, until: end.min(full), sound_until: full }
    }

    /// Lets what was taken last be spent for its own time, if that is all there is.
    pub(super) fn renew(&self) {
        self.lease.renew(self.lock().last);
    }

    /// Spends a token of a lease that has seemed to be over.
    pub(super) fn spend_of_last(&self, state: &State, now: Micros, epoch: u64) -> Spent {
        if self.lease.is_empty() {
            return Spent::Nothing;
        }
        self.lease.renew(state.last);
        // Not looked at whether it is time to take more: who finds nothing left does.
        self.lease.spend(now, epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(tokens: u64, until: Micros) -> Taken {
        let good = Good { tokens, until, sound_until: until };
        Taken { good, epoch: 1, beyond: 7, capacity: 100, low: 0 }
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
    fn what_is_left_of_several_leases_is_the_last() {
        let lease = Lease::default();
        let (first, last) = (taken(3, 100), taken(2, 900));
        lease.add(first);
        lease.add(last);
        lease.renew(last.good);
        assert_eq!(lease.until(), 100, "some of the first may be left");
        for _ in 0..3 {
            assert_ne!(lease.spend(99, 1), Spent::Nothing);
        }
        lease.renew(last.good);
        assert_eq!((lease.until(), lease.is_sound(899), lease.is_over(899, 1)), (900, true, false));
        assert!(lease.is_over(899, 2), "published anew");
    }
}
