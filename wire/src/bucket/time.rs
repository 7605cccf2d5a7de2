//! The arithmetic of time and tokens: the twin of `scripts/time.lua`, which explains it.
//!
//! Instants are µs of Redis `TIME`. Everything is exact, in 128 bits.

/// An instant no bucket waits for: beyond it doubles are no longer whole µs.
pub const NEVER: u64 = 1 << 53;

/// A rate in lowest terms: `n` tokens every `p` µs; `n` is 0 where no tokens come with time.
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
    fn fallen(self, t: u64) -> u128 {
        u128::from(t) * u128::from(self.n) / u128::from(self.p)
    }

    /// The instant at which token `i` falls.
    fn falls(self, i: u128) -> u128 {
        (i * u128::from(self.p)).div_ceil(u128::from(self.n))
    }

    /// µs between `t` and the last token at or before it; 0 when tokens fall faster than one a µs.
    fn since_last(self, t: u64) -> u64 {
        if self.n > self.p {
            return 0;
        }
        t - self.falls(self.fallen(t)) as u64
    }

    /// The score of a bucket that stops being full at `now`: never early, at most 2 µs late.
    pub fn start(self, now: u64) -> u64 {
        match self {
            Self { n: 0 | 1, .. } => now,
            Self { n, p } if n > p => now + 1,
            Self { n, p } if self.since_last(now + 1) >= p / n => now + 2,
            _ => now + 1,
        }
    }

    /// Time to live, in ms, of the key that a first take of `count` tokens writes; `u64::MAX` when no tokens come.
    ///
    /// The key outlives the instant at which the bucket is full again by 1 to 3 ms.
    pub fn first_take_ms(self, count: u64) -> u64 {
        if self.n == 0 {
            return u64::MAX;
        }
        let micros = (u128::from(count) * u128::from(self.p)).div_ceil(u128::from(self.n));
        let late = if self.n > 1 { 3 } else { 0 };
        u64::try_from((micros + late) / 1_000 + 2).unwrap_or(u64::MAX)
    }

    /// The whole tokens owed at `now` to a bucket credited up to `score`, and its score once it has them.
    pub fn owed(self, score: u64, now: u64) -> (u128, u64) {
        if now <= score || self.n == 0 {
            return (0, score);
        }
        if self.n == 1 {
            let k = (now - score) / self.p;
            return (u128::from(k), score + k * self.p);
        }
        let d = self.since_last(score);
        let reached = self.fallen(now - d);
        let at = if self.n > self.p { now } else { self.falls(reached) as u64 + d };
        (reached - self.fallen(score), at)
    }

    /// The tokens that come after `now` until `full`, one of its instants, and its score at `now`.
    pub fn missing(self, full: u64, now: u64) -> (u128, u64) {
        let d = self.since_last(full);
        let reached = self.fallen(now - d);
        (self.fallen(full) - reached, self.falls(reached) as u64 + d)
    }

    /// The instant by which `k` more tokens have come to a bucket credited up to `score`; at most [`NEVER`].
    pub fn instant(self, score: u64, k: u64) -> u64 {
        if self.n == 0 {
            return NEVER;
        }
        let at = self.falls(self.fallen(score) + u128::from(k)) + u128::from(self.since_last(score));
        u64::try_from(at).map_or(NEVER, |at| at.min(NEVER))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paces() -> impl Strategy<Value = Pace> {
        let interval =
            prop_oneof![Just(1_000_u64), Just(1_000_000), Just(60_000_000), 1_000..=366 * 86_400_000_000_u64];
        let tokens = prop_oneof![1..=20_u64, 1..=1_000_000_u64, 1..=(1_u64 << 53)];
        (tokens, interval).prop_map(|(tokens, micros)| {
            let rate = crate::limit::Rate::new(tokens, std::time::Duration::from_micros(micros)).unwrap();
            let (n, p) = rate.lowest_terms();
            Pace { n, p }
        })
    }

    const NOW: std::ops::Range<u64> = 1_700_000_000_000_000..2_000_000_000_000_000;

    proptest! {
        /// However often a bucket is credited on the way, it has had the same tokens in the end.
        #[test]
        fn crediting_in_steps_gives_what_crediting_at_once_gives(
            pace in paces(), now in NOW, steps in prop::collection::vec(0..5_000_000_u64, 1..40),
        ) {
            let first = pace.start(now);
            let (mut score, mut at, mut given) = (first, now, 0);
            for step in steps {
                at += step;
                let (k, next) = pace.owed(score, at);
                prop_assert!(next >= score && (k > 0 || next == score));
                (score, given) = (next, given + k);
            }
            prop_assert_eq!(given, pace.owed(first, at).0);
        }

        /// Never a token early, and never more than 3 µs late, over any time.
        #[test]
        fn tokens_come_at_the_rate(pace in paces(), now in NOW, elapsed in 0..100_000_000_000_u64) {
            let (k, _) = pace.owed(pace.start(now), now + elapsed);
            let (n, p) = (u128::from(pace.n), u128::from(pace.p));
            prop_assert!(k * p <= n * u128::from(elapsed));
            prop_assert!((k + 1) * p > n * u128::from(elapsed.saturating_sub(3)));
        }

        /// A token is owed from the instant that was promised for it, and not a µs before.
        #[test]
        fn a_promised_instant_is_kept(pace in paces(), now in NOW, k in 1..1_000_u64) {
            let score = pace.start(now);
            let at = pace.instant(score, k);
            if at < NEVER {
                prop_assert!(pace.owed(score, at).0 >= u128::from(k));
                prop_assert!(pace.owed(score, at - 1).0 < u128::from(k));
            }
        }
    }
}
