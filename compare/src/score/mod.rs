//! Scores of a limiter. docs/comparison.md defines each figure.

mod evenness;
mod histogram;
mod promise;
mod series;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use topup_lab::Quantiles;

pub use histogram::{BINS, Histogram};
pub use promise::Promises;
pub use series::Series;
use topup_lab::clock::{Micros, SECOND};

use crate::{
    oracle::{Oracle, Worst, Wrong, worst_of},
    take::Take,
};

/// The result of a limiter under one traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Takes asked for.
    pub asked: u64,
    /// Tokens admitted.
    pub admitted: u64,
    /// Takes denied.
    pub denied: u64,
    /// Takes that got no answer.
    pub failed: u64,
    /// Tokens that a perfect limiter of its kind would have admitted. Takes were decided somewhere between sending and
    /// answer. A perfect limiter can have reached several figures, and this one is nearest to `admitted`. It is `admitted`
    /// itself if no decision was certainly wrong. Where more than the rule decides, it is `admitted` without its mistakes.
    pub ideal: u64,
    /// The window in which most was admitted above capacity and rate.
    pub excess: Excess,
    /// Tokens certainly admitted wrongly.
    pub wrongly_allowed: u64,
    /// Takes certainly denied wrongly.
    pub wrongly_denied: u64,
    /// The longest that a bucket with tokens denied, in ms.
    pub starved_ms: f64,
    /// When that began, in s.
    pub starved_at: f64,
    /// The longest `retry_after` that a denial told, in ms; 0 without any.
    pub longest_wait_ms: f64,
    /// Delays behind promises of `retry_after`, where they were tested.
    pub promises: Option<Promises>,
    /// Unevenness of tokens under overload.
    pub unevenness: Option<f64>,
    /// µs from asking to the answer.
    pub latency: Option<Quantiles>,
    /// Admitted over time.
    pub series: Series,
    /// A histogram of the excess of all windows.
    pub histogram: Histogram,
}

/// The worst excess, in any window of any bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// Tokens above capacity + rate × window; 0 when there is none.
    pub tokens: f64,
    /// When the window begins, in s.
    pub at: f64,
    /// Its length in ms.
    pub window_ms: f64,
}

/// Facts about the play.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// The perfect limiter.
    pub oracle: Oracle,
    /// When it began.
    pub from: Micros,
    /// When it ended.
    pub until: Micros,
    /// Whether each bucket had one taker, who came back when told to.
    pub promises: bool,
}

// === impl Score ===

impl Score {
    /// The score of all `takes`.
    pub fn of(played: &Played, takes: &[Take]) -> Self {
        let oracle = &played.oracle;
        let (mut wrong, mut excess) = (Wrong::default(), Excess::default());
        let (mut ideal, mut bounds) = (Vec::new(), [0; 2]);
        let mut histogram = Histogram::default();
        let mut promises = promise::Seen::default();
        for bucket in oracle.ideal.groups(takes) {
            wrong = wrong.plus(oracle.judge(&bucket));
            if oracle.ideal.is_special() {
                // Their windows are not those of the rule.
                continue;
            }
            for worst in worst_of(&oracle.rule, &bucket) {
                histogram.count(worst.tokens());
                excess = excess.or(&worst, played.from);
            }
            ideal.extend(admitted_ideally(oracle, &bucket, Take::middle));
            for (bound, at) in
                bounds.iter_mut().zip([(|take| take.sent) as fn(&Take) -> Micros, |take| take.received])
            {
                *bound += tokens(&admitted_ideally(oracle, &bucket, at));
            }
            if played.promises {
                promises.judge(oracle, &bucket);
            }
        }
        let middle = tokens(&ideal);
        let (least, most) = (bounds[0].min(bounds[1]).min(middle), bounds[0].max(bounds[1]).max(middle));
        let allowed = || takes.iter().filter(|take| take.is_allowed());
        let at = |time: Micros| time.saturating_sub(played.from) as f64 / SECOND as f64;
        let failed = takes.iter().filter(|take| !take.is_allowed() && !take.is_denied()).count() as u64;
        let right = (wrong.allowed, wrong.denied, failed) == (0, 0, 0);
        let admitted: u64 = allowed().map(|take| u64::from(take.count)).sum();
        Self {
            asked: takes.len() as u64,
            admitted,
            denied: takes.iter().filter(|take| take.is_denied()).count() as u64,
            failed,
            ideal: match oracle.ideal.is_special() {
                true => (admitted + wrong.denied).saturating_sub(wrong.allowed),
                false if right => admitted,
                false => admitted.clamp(least, most),
            },
            excess,
            wrongly_allowed: wrong.allowed,
            wrongly_denied: wrong.denied,
            starved_ms: wrong.starved as f64 / 1e3,
            starved_at: at(wrong.starved_at),
            longest_wait_ms: takes.iter().filter_map(Take::retry_after).max().unwrap_or(0) as f64 / 1e3,
            promises: promises.summary(),
            unevenness: evenness::unevenness(played, takes),
            latency: Quantiles::of(takes.iter().map(|take| (take.received - take.sent) as f64)),
            series: Series::of(played, allowed().map(|take| (take.middle(), u64::from(take.count))), &ideal),
            histogram,
        }
    }

    /// Admitted as a share of what a perfect limiter of its kind would have admitted.
    pub fn share(&self) -> f64 {
        if self.ideal == 0 { f64::NAN } else { self.admitted as f64 / self.ideal as f64 }
    }
}

// === impl Excess ===

impl Excess {
    fn or(self, worst: &Worst, began: Micros) -> Self {
        let tokens = worst.tokens();
        if tokens <= self.tokens || !worst.is_certain(0) {
            return self;
        }
        let at = worst.from.saturating_sub(began) as f64 / SECOND as f64;
        Self { tokens, at, window_ms: (worst.until - worst.from) as f64 / 1e3 }
    }
}

/// When a perfect limiter would have admitted how much of the same takes, each decided at `at`.
fn admitted_ideally(oracle: &Oracle, takes: &[Take], at: fn(&Take) -> Micros) -> Vec<(Micros, u64)> {
    let mut asked: Vec<(Micros, u64)> = takes.iter().map(|take| (at(take), u64::from(take.count))).collect();
    asked.sort_unstable_by_key(|(at, _)| *at);
    let path = oracle.path(asked.iter().copied());
    asked.into_iter().zip(path).filter_map(|(asked, allowed)| allowed.then_some(asked)).collect()
}

fn tokens(admitted: &[(Micros, u64)]) -> u64 {
    admitted.iter().map(|(_, count)| count).sum()
}
