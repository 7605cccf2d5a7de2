//! Rates in lowest terms, and the instants of their tokens.
//!
//! `scripts/time.lua` explains the arithmetic, with the same functions in Lua. Instants are µs of Redis `TIME`. All
//! results are exact, in 128 bits.

use crate::constants::{EXACT, FIRST_TAKE_EXTRA_MS, FIRST_TAKE_LATE, UNHURRIED};

/// The longest time in which a bucket at rest may fill, in µs: 50 years, so that doubles hold its full instant.
const LONGEST_FILLING: u128 = 50 * 366 * 86_400_000_000;
const SECOND: u64 = 1_000_000;

/// A rate in lowest terms: `n` tokens every `p` µs. `n` is 0 where no tokens come with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Tokens per span.
    pub n: u64,
    /// µs per span.
    pub p: u64,
}

// === impl Pace ===

impl Pace {
    /// Tokens that have fallen by instant `t`, counted from instant 0.
    pub fn fallen(self, t: u64) -> u128 {
        u128::from(t) * u128::from(self.n) / u128::from(self.p)
    }

    /// The instant at which token `i` falls.
    pub fn falls(self, i: u128) -> u128 {
        (i * u128::from(self.p)).div_ceil(u128::from(self.n))
    }

    /// µs between `t` and the last token at or before it; 0 when tokens fall faster than one a µs.
    pub fn since_last(self, t: u64) -> u64 {
        if self.n > self.p {
            return 0;
        }
        t - self.falls(self.fallen(t)) as u64
    }

    /// The instant by which `k` more tokens have come to a bucket credited up to `score`; at most [`EXACT`].
    pub fn instant(self, score: u64, k: u64) -> u64 {
        if self.n == 0 {
            return EXACT;
        }
        let at = self.falls(self.fallen(score) + u128::from(k)) + u128::from(self.since_last(score));
        u64::try_from(at).map_or(EXACT, |at| at.min(EXACT))
    }

    /// µs between two tokens, rounded down; at least 1.
    pub fn token_time(self) -> u64 {
        (self.p / self.n.max(1)).max(1)
    }

    /// µs in which `tokens` come, rounded down; 0 if tokens do not come with time.
    pub fn time_of(self, tokens: u64) -> u64 {
        let Self { n, p } = self;
        match n {
            0 => 0,
            1 => tokens.saturating_mul(p),
            _ => u64::try_from(u128::from(tokens) * u128::from(p) / u128::from(n)).unwrap_or(u64::MAX),
        }
    }

    /// The longest time from a reservation of a waiter to its tokens, in µs: 30 s, or less where the whole `capacity` comes
    /// sooner. A bucket therefore owes no more than it holds.
    pub fn longest_delay(self, capacity: u64) -> u64 {
        self.time_of(capacity).min(30 * SECOND)
    }

    /// Time to live, in ms, of the key that a first take of `count` tokens writes; `u64::MAX` when no tokens come.
    ///
    /// The key outlives the instant at which the bucket is full again by 1 to 3 ms.
    pub fn first_take_ms(self, count: u64) -> u64 {
        if self.n == 0 {
            return u64::MAX;
        }
        let micros = (u128::from(count) * u128::from(self.p)).div_ceil(u128::from(self.n));
        let late = if self.n > 1 { FIRST_TAKE_LATE } else { 0 };
        let ms = (micros + u128::from(late)) / 1_000 + u128::from(FIRST_TAKE_EXTRA_MS);
        u64::try_from(ms).unwrap_or(u64::MAX)
    }

    /// Whether an instant in µs tells exactly how full a bucket of `capacity` is. Its tokens come one at a time, all
    /// within 50 years.
    pub fn can_rest(self, capacity: u64) -> bool {
        let (n, p) = (u128::from(self.n), u128::from(self.p));
        n <= p && u128::from(capacity) * p <= LONGEST_FILLING * n
    }
}

/// The shortest time, in µs, from the credit of a counting bucket to the instant at which it is due again.
///
/// `tick` is the refill period in µs.
pub fn refill_period(pace: Pace, catch_up: bool, tick: u64) -> u64 {
    if pace.n == 0 {
        return tick;
    }
    let token = pace.p.div_ceil(pace.n);
    if catch_up { tick.max(token).max(UNHURRIED) } else { token }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_owes_what_it_holds_and_the_tokens_of_30_seconds() {
        let seconds = |n, capacity| Pace { n, p: 2 * SECOND }.longest_delay(capacity) as f64 / 1e6;
        assert_eq!([seconds(1, 1), seconds(1, 14), seconds(1, 15), seconds(1, 16)], [2.0, 28.0, 30.0, 30.0]);
        assert_eq!([seconds(20, 1), seconds(20, 1_000), seconds(0, 9)], [0.1, 30.0, 0.0]);
    }
}
