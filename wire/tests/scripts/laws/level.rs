//! Bounds on the tokens in a bucket after any changes: rigorous, in whole numbers.

use topup_wire::limit::{Limit, OnChange};

/// Levels are counted in shares of a token, so many to one.
const SHARE: i128 = 1 << 40;

/// The lowest and the highest level a bucket may have.
#[derive(Clone, Debug)]
pub(crate) struct LeakyBucket {
    low: i128,
    high: i128,
    at: u64,
    n: i128,
    p: i128,
    capacity: i128,
}

// === impl Level ===

impl LeakyBucket {
    /// A full bucket of `limit`.
    pub(crate) fn full(limit: &Limit, at: u64) -> Self {
        let (n, p) = limit.terms.supply.lowest_terms();
        let capacity = i128::from(limit.terms.capacity.get()) * SHARE;
        Self { low: capacity, high: capacity, at, n: n.into(), p: p.into(), capacity }
    }

    /// The instant it speaks of.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Time passes, until `at`.
    pub(crate) fn until(&mut self, at: u64) {
        let come = |micros: u64| i128::from(micros) * self.n * SHARE;
        let elapsed = at - self.at;
        self.low += come(elapsed).div_euclid(self.p);
        self.high += (come(elapsed) + self.p - 1).div_euclid(self.p);
        self.at = at;
        if self.high > self.capacity {
            self.high = self.capacity;
        }
        if self.low > self.capacity {
            self.low = self.capacity;
        }
    }

    /// Its tokens may come so many µs late or early.
    pub(crate) fn uncertain(&mut self, late: u64, early: u64) {
        let come = |micros: u64| (i128::from(micros) * self.n * SHARE).div_euclid(self.p) + 1;
        (self.low, self.high) = (self.low - come(late), self.high + come(early));
    }

    /// Tokens are taken.
    pub(crate) fn taken(&mut self, count: u64) {
        let count = i128::from(count) * SHARE;
        (self.low, self.high) = (self.low - count, self.high - count);
    }

    /// `limit` applies from now on.
    pub(crate) fn changed(&mut self, limit: &Limit) {
        let new = Self::full(limit, self.at);
        let scaled = |level: i128| level * (new.capacity / SHARE) / (self.capacity / SHARE);
        (self.low, self.high) = match limit.on_change {
            OnChange::Keep => (self.low.min(new.capacity), self.high.min(new.capacity)),
            // Whole tokens are scaled and rounded down. The passed share of the next token stays.
            OnChange::Proportional => (scaled(self.low - SHARE) - SHARE, scaled(self.high) + SHARE),
            OnChange::Reset => (new.capacity, new.capacity),
        };
        *self = Self { low: self.low.max(0), high: self.high, ..new };
        // The next token may come 2 µs late, see time.lua, and is due on a whole µs.
        self.uncertain(3, 1);
    }

    /// Whether a bucket at `at` may hold `tokens`, a begun one not counted.
    pub(crate) fn allows(&mut self, tokens: u64, at: u64) -> bool {
        self.until(at);
        let tokens = i128::from(tokens) * SHARE;
        tokens <= self.high && tokens + SHARE > self.low
    }
}
