//! The twin of `time.lua`, which explains the arithmetic. Everything is exact, in 128 bits.

use topup_wire::bucket::Pace;

/// The tokens that a rate brings to a bucket.
pub trait Credit {
    /// The score of a bucket that stops being full at `now`: never early, at most 2 µs late.
    fn start(self, now: u64) -> u64;

    /// The whole tokens owed at `now` to a bucket credited up to `score`, and its score once it has them.
    fn owed(self, score: u64, now: u64) -> (u128, u64);

    /// The tokens that come after `now` until `full`, one of its instants, and its score at `now`.
    fn missing(self, full: u64, now: u64) -> (u128, u64);
}

// === impl Pace ===

impl Credit for Pace {
    fn start(self, now: u64) -> u64 {
        match self {
            Self { n: 0 | 1, .. } => now,
            Self { n, p } if n > p => now + 1,
            Self { n, p } if self.since_last(now + 1) >= p / n => now + 2,
            _ => now + 1,
        }
    }

    fn owed(self, score: u64, now: u64) -> (u128, u64) {
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

    fn missing(self, full: u64, now: u64) -> (u128, u64) {
        let d = self.since_last(full);
        let reached = self.fallen(now - d);
        (self.fallen(full) - reached, self.falls(reached) as u64 + d)
    }
}

/// Tokens and score as of `at` of a bucket that is full at `full_at`. If more is missing than it holds: the last instant of
/// the tokens on the way to `full_at`, too.
pub(crate) fn arrived(capacity: u64, pace: Pace, full_at: u64, at: u64) -> (i64, u64, Option<u64>) {
    if full_at <= at {
        return (capacity as i64, full_at, None);
    }
    let (missing, score) = pace.missing(full_at, at);
    match u64::try_from(missing).ok().and_then(|missing| capacity.checked_sub(missing)) {
        Some(tokens) => (tokens as i64, score, None),
        None => (0, pace.start(at), Some(score)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use topup_wire::constants::EXACT;

    use super::*;

    fn paces() -> impl Strategy<Value = Pace> {
        let interval =
            prop_oneof![Just(1_000_u64), Just(1_000_000), Just(60_000_000), 1_000..=366 * 86_400_000_000_u64];
        let tokens = prop_oneof![1..=20_u64, 1..=1_000_000_u64, 1..=(1_u64 << 53)];
        (tokens, interval).prop_map(|(tokens, micros)| {
            let rate =
                topup_wire::limit::Rate::new(tokens, std::time::Duration::from_micros(micros)).unwrap();
            rate.pace()
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
            if at < EXACT {
                prop_assert!(pace.owed(score, at).0 >= u128::from(k));
                prop_assert!(pace.owed(score, at - 1).0 < u128::from(k));
            }
        }
    }
}
