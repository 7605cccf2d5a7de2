//! The twin of `sliding_counter.lua`.

use topup_wire::{bucket::Operation, limit::Algorithm, reply::Settled};

use crate::{
    apply::{State, apply, unknown, without_debt, writes},
    record::Record,
};

/// Two windows, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    /// The instant the window under way begins.
    pub begun: u64,
    /// The instant it is over.
    pub over: u64,
    /// Tokens taken in it.
    pub taken: u64,
    /// Tokens taken in the one before.
    pub before: u64,
}

// === impl Windowed ===

impl SlidingCounter {
    const fn length(&self) -> u64 {
        self.over - self.begun
    }

    /// Tokens that count at `at`.
    fn counts(&self, at: u64) -> u64 {
        if at < self.over {
            return self.taken + share(self.before, self.over - at, self.length());
        }
        share(self.taken, (self.over + self.length()).saturating_sub(at), self.length())
    }

    /// The same windows at `now`, which is not before they began.
    fn at(&self, now: u64) -> Self {
        let length = self.length();
        let (taken, before) = match now / length - self.begun / length {
            0 => (self.taken, self.before),
            1 => (0, self.taken),
            _ => (0, 0),
        };
        Self { taken, before, ..Self::around(now, length) }
    }

    /// The windows around `now`, of which nothing was taken.
    const fn around(now: u64, length: u64) -> Self {
        let begun = now - now % length;
        Self { begun, over: begun + length, taken: 0, before: 0 }
    }
}

/// As much of `tokens` as `micros` are of `length`, at most all of it; rounded up.
fn share(tokens: u64, micros: u64, length: u64) -> u64 {
    (u128::from(tokens) * u128::from(micros.min(length))).div_ceil(u128::from(length)) as u64
}

impl State for SlidingCounter {
    const ALGORITHM: Algorithm = Algorithm::SlidingCounter;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let (Some((length, _)), capacity) = (record.window(), record.capacity) else {
            return unknown(now);
        };
        let (mut held, mut moved) = (*state, false);
        if let Some(other) = held.filter(|held| held.length() != length) {
            let taken = other.counts(record.since);
            (held, moved) = (Some(Self { taken, ..Self::around(record.since, length) }), true);
        }
        if let Some(ahead) = held.filter(|held| held.begun > now) {
            (held, moved) = (Some(Self { taken: ahead.taken, ..Self::around(now, length) }), true);
        }
        let mut windows = held.map_or(Self::around(now, length), |held| held.at(now));

        let free = |windows: &Self| capacity.saturating_sub(windows.counts(now)) as i64;
        let mut settled = apply(capacity, free(&windows), without_debt(operation), now);
        windows.taken += settled.granted;
        match operation {
            Operation::Refund(count) => {
                windows.taken = windows.taken.saturating_sub(count);
                settled.tokens = free(&windows);
            }
            Operation::Reset => (windows.taken, windows.before) = (0, 0),
            _ => {}
        }
        if settled.missing > 0 {
            // The first instant at which that many are free, found by looking: later, there are no fewer.
            let wanted = settled.tokens as u64 + settled.missing;
            let fits = |at: u64| windows.counts(at) + wanted <= capacity;
            let (mut low, mut high) = (now, windows.over + length);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if fits(middle) { high = middle } else { low = middle }
            }
            settled.wait = high - now;
        }
        if writes(operation, settled.verdict, moved) {
            *state = (windows.taken > 0 || windows.before > 0).then_some(windows);
        }
        settled.into()
    }

    fn expiry(&self, _: &Record) -> u64 {
        let counts = if self.taken > 0 { self.over + self.length() } else { self.over };
        counts.div_ceil(1_000)
    }
}
