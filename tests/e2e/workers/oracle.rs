//! Judges the answers to workers by the laws alone: it knows nothing of counters, ticks or scripts.

use std::time::Duration;

use topup_tests::{Attempt, Stalls};
use topup_wire::{limit::Rate, scripts::rests_as_number};

use super::windows::Windows;

/// Part of a token that may come before its time where a bucket rests as a number. A take may count from an instant that
/// has just passed, see docs/design/exactness.md.
const EARLY: f64 = 0.6;

/// A rate in tokens a second from an instant on, in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) from: u64,
    pub(super) rate: f64,
}

/// One bucket for all attempts, and how its rate went.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    pub(super) capacity: f64,
    /// Tokens that may come before their time.
    pub(super) early: f64,
    pub(super) steps: Vec<Step>,
}

/// The judgement of all attempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    /// Takes allowed.
    pub(super) allowed: usize,
    /// From the first to the last take allowed, in s.
    pub(super) seconds: f64,
    /// Capacity and what came in that time.
    pub(super) supply: f64,
    /// Takes that a perfect bucket allows of the same attempts.
    pub(super) ideal: usize,
    /// Tokens that come while the slowest take is answered. A denial counts from the reading of its answer, so these may
    /// still be there at the end.
    pub(super) late: f64,
    /// The most tokens by which any window was above capacity and what came in it; below 0 when all had less.
    pub(super) excess: f64,
}

// === impl Oracle ===

impl Oracle {
    /// A bucket that fills at `rate` tokens a second.
    pub(super) fn new(capacity: u32, rate: f64) -> Self {
        let pace = Rate::new((rate * 1e3) as u64, Duration::from_secs(1_000)).unwrap().pace();
        let early = if rests_as_number(capacity.into(), pace) { EARLY } else { 0.0 };
        Self { capacity: capacity.into(), early, steps: vec![Step { from: 0, rate }] }
    }

    /// A bucket that may give so many more tokens before their time: one without catch-up, a tick's credit.
    pub(super) fn early(self, tokens: f64) -> Self {
        Self { early: self.early + tokens, ..self }
    }

    /// A rate that changes at `from`.
    pub(super) fn then(mut self, from: u64, rate: f64) -> Self {
        self.steps.push(Step { from, rate });
        self
    }

    pub(super) fn judge(&self, attempts: &[Attempt]) -> Judgement {
        let duration = |attempt: &Attempt| attempt.error().map_or(attempt.received - attempt.sent, |_| 0);
        let allowed: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.is_allowed()).collect();
        let first = allowed.iter().map(|attempt| attempt.sent).min().unwrap_or(0);
        let last = allowed.iter().map(|attempt| attempt.received).max().unwrap_or(0);
        Judgement {
            allowed: allowed.len(),
            seconds: (last - first) as f64 / 1e6,
            supply: self.capacity + self.tokens(first, last),
            ideal: self.ideal(self.capacity, first, attempts),
            late: self.fastest() * attempts.iter().map(duration).max().unwrap_or(0) as f64 / 1e6,
            excess: self.excess(&allowed),
        }
    }

    /// The highest of its rates.
    fn fastest(&self) -> f64 {
        self.steps.iter().map(|step| step.rate).fold(0.0, f64::max)
    }

    /// Tokens that come between two instants.
    pub(super) fn tokens(&self, from: u64, until: u64) -> f64 {
        let ends = self.steps.iter().skip(1).map(|step| step.from).chain([u64::MAX]);
        let share = |(step, end): (&Step, u64)| {
            let micros = until.min(end).saturating_sub(from.max(step.from));
            micros as f64 / 1e6 * step.rate
        };
        self.steps.iter().zip(ends).map(share).sum()
    }

    /// Takes allowed by a perfect bucket with `level` tokens at `at`, if these attempts come at the instants of their
    /// answers. They are sorted by them.
    pub(super) fn ideal(&self, mut level: f64, mut at: u64, attempts: &[Attempt]) -> usize {
        let mut given = 0;
        for attempt in attempts {
            level = (level + self.tokens(at, attempt.received)).min(self.capacity);
            at = attempt.received;
            if level >= 1.0 {
                (level, given) = (level - 1.0, given + 1);
            }
        }
        given
    }

    /// Law 1 in every window that begins with one take and ends with another. Only takes that were sent and answered
    /// within it surely happened within it.
    fn excess(&self, allowed: &[&Attempt]) -> f64 {
        let (mut by_sending, mut by_answer) = (allowed.to_vec(), (0..allowed.len()).collect::<Vec<_>>());
        by_sending.sort_by_key(|attempt| attempt.sent);
        by_answer.sort_by_key(|place| by_sending[*place].received);
        let mut windows = Windows::new(allowed.len());
        let excess = by_answer.into_iter().map(|place| {
            let Attempt { sent, received, .. } = *by_sending[place];
            windows.add(place, self.tokens(0, sent)) - self.tokens(0, received) - self.capacity - self.early
        });
        excess.fold(f64::NEG_INFINITY, f64::max)
    }
}

// === impl Judgement ===

impl Judgement {
    /// Takes allowed, as a share of those that a perfect bucket allows.
    pub(super) fn share(&self) -> f64 {
        self.allowed as f64 / self.ideal as f64
    }

    /// At least nine tenths of what a perfect bucket gives, unless the machine stood still.
    #[track_caller]
    pub(super) fn gives_most(self, stalls: &Stalls) {
        let is_judged = stalls.below(Duration::from_millis(50), "the share");
        assert!(!is_judged || self.share() >= 0.9, "{self:?}");
    }

    /// Law 1: never over, in any window.
    #[track_caller]
    pub(super) fn never_over(self) -> Self {
        // A µs of Redis's clock and one of ours end at different instants.
        assert!(self.excess <= 0.01, "law 1: {self:?}");
        self
    }

    /// Law 2: not starved of more than this share of what a perfect bucket had given, nor given more.
    #[track_caller]
    pub(super) fn within(self, share: f64) -> Self {
        // A take counts at some instant between its question and its answer, which may make a difference of one token.
        let off = (self.allowed as f64 - self.ideal as f64).abs() - 1.0;
        assert!(off <= share * self.ideal as f64 + self.late, "law 2: {self:?}");
        self
    }
}

/// No attempt may have ended in an error.
#[track_caller]
pub(super) fn no_errors(attempts: &[Attempt]) {
    let errors: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.error().is_some()).collect();
    assert!(errors.is_empty(), "{} of {}, the first {:?}", errors.len(), attempts.len(), errors[0]);
}

mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use topup_tests::{Answer, Seed};

    use super::*;

    fn allowed(millis: impl IntoIterator<Item = u64>) -> Vec<Attempt> {
        let at = |ms: u64| Attempt { sent: ms * 1_000, received: ms * 1_000 + 10, answer: Answer::Allowed };
        millis.into_iter().map(at).collect()
    }

    #[test]
    fn a_steady_rate_is_neither_over_nor_starved() {
        let judgement = Oracle::new(2, 10.0).judge(&allowed((0..50).map(|i| i * 100)));
        judgement.never_over().within(0.0);
    }

    #[test]
    #[should_panic(expected = "law 1")]
    fn one_token_too_many_anywhere_is_found() {
        Oracle::new(2, 10.0).judge(&allowed([0, 1, 500, 2000, 2001, 2002, 3000])).never_over();
    }

    #[test]
    #[should_panic(expected = "law 2")]
    fn a_token_withheld_is_found() {
        let mut attempts = allowed((0..20).map(|i| i * 100));
        attempts[4..8].iter_mut().for_each(|attempt| attempt.answer = Answer::Denied);
        Oracle::new(1, 10.0).judge(&attempts).within(0.1);
    }

    #[test]
    fn the_fullest_of_all_windows_is_found() {
        let seed = Seed::new();
        let mut rng = StdRng::seed_from_u64(seed.number());
        let oracle = Oracle::new(3, 1_000.0).then(20_000, 100.0);
        for _ in 0..200 {
            let takes = (0..rng.random_range(1..40)).map(|_| {
                let sent = rng.random_range(0..50_000);
                Attempt { sent, received: sent + rng.random_range(0..20_000), answer: Answer::Allowed }
            });
            let takes: Vec<Attempt> = takes.collect();
            let pairs =
                takes.iter().flat_map(|first| takes.iter().map(move |last| (first.sent, last.received)));
            let over = |(from, until): (u64, u64)| {
                let within = takes.iter().filter(|take| take.sent >= from && take.received <= until).count();
                if within == 0 { f64::NEG_INFINITY } else { within as f64 - 3.0 - oracle.tokens(from, until) }
            };
            let worst = pairs.map(over).fold(f64::NEG_INFINITY, f64::max);
            assert!((oracle.judge(&takes).excess - worst).abs() < 1e-6, "{takes:?}");
        }
    }

    #[test]
    fn a_change_of_rate_counts_from_its_instant() {
        let oracle = Oracle::new(1, 10.0).then(1_000_000, 100.0);
        assert_eq!(oracle.tokens(500_000, 1_500_000), 55.0);
    }
}
