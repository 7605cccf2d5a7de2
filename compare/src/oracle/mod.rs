//! The exact oracle: what a perfect limiter does, in whole numbers, and which decisions were certainly wrong.
//!
//! It knows three kinds of perfection: a bucket that fills continuously, a window that slides, and windows side by side.
//! Each is fed with the very instants of the takes it judges.

mod bucket;
mod fixed;
mod in_flight;
mod perfect;
mod sliding;
#[cfg(test)]
mod tests;
mod windows;

use serde::{Deserialize, Serialize};

pub use perfect::Perfect;
use topup_lab::clock::Micros;
pub use windows::{Windows, Worst, worst_of};

use crate::{rule::Rule, take::Take};

/// A kind of perfect limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ideal {
    /// A bucket that starts full and fills continuously.
    Bucket,
    /// At most `capacity` in any window that ends now.
    Sliding,
    /// At most `capacity` in each of the windows that begin at whole multiples of their length.
    Fixed,
    /// At most `capacity` in a window that begins with its first take.
    FixedByFirst,
}

/// An ideal with its rule.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// The perfect limiter.
    pub ideal: Ideal,
    /// How much.
    pub rule: Rule,
    /// Redis's clock minus this machine's, in µs. Windows lie on Redis's clock.
    pub offset: i64,
}

/// Decisions about one bucket that were wrong at every instant at which they can have been made.
///
/// The oracle follows the limiter. A take wrongly allowed is not held against those that come later, so each mistake
/// counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Tokens given that there were not.
    pub allowed: u64,
    /// Takes denied for which there were tokens.
    pub denied: u64,
    /// The longest time from a wrong denial to the next take that was allowed, in µs, and when it began.
    pub starved: Micros,
    /// When that began.
    pub starved_at: Micros,
}

/// The largest difference between two exact clocks. Each counts whole µs from a beginning of its own.
const CLOCK_STEP: Micros = 20;
/// Clocks of two machines drift apart by up to one part in this.
const CLOCK_DRIFT: Micros = 50_000;
/// Redis forgets keys by a clock of whole ms.
const EXPIRY_STEP: Micros = 2_000;

/// The difference that two clocks may have about a time.
const fn grace(time: Micros) -> Micros {
    CLOCK_STEP + time / CLOCK_DRIFT
}

// === impl Ideal ===

impl Ideal {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Bucket, Self::Sliding, Self::Fixed, Self::FixedByFirst];

    /// For tables.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Bucket => "token bucket",
            Self::Sliding => "sliding window",
            Self::Fixed => "fixed window",
            Self::FixedByFirst => "window from the first take on",
        }
    }
}

// === impl Oracle ===

impl Oracle {
    /// Decisions of a perfect limiter about the takes `asked`: instant and tokens, in order.
    pub fn path(&self, asked: impl IntoIterator<Item = (Micros, u64)>) -> Vec<bool> {
        let mut perfect = Perfect::new(self);
        asked.into_iter().map(|(at, count)| perfect.take(at, count)).collect()
    }

    /// Wrong decisions about one bucket, whose takes are in the order of their answers.
    pub fn judge(&self, takes: &[Take]) -> Wrong {
        let wrong = match self.ideal {
            Ideal::Bucket => bucket::wrong(&self.rule, takes),
            Ideal::Sliding => sliding::wrong(&self.rule, takes),
            Ideal::Fixed => fixed::wrong_by_clock(&self.rule, self.offset, takes),
            Ideal::FixedByFirst => fixed::wrong_by_first(&self.rule, takes),
        };
        Wrong::of(takes, &wrong)
    }
}

// === impl Wrong ===

impl Wrong {
    /// Adds up which of `takes` were wrong.
    fn of(takes: &[Take], wrong: &[bool]) -> Self {
        let mut sum = Self::default();
        let mut since: Option<Micros> = None;
        let last = takes.last().map_or(0, |take| take.received);
        for (take, wrong) in takes.iter().zip(wrong) {
            match (take.is_allowed(), wrong) {
                (true, wrong) => {
                    sum.allowed += if *wrong { u64::from(take.count) } else { 0 };
                    sum.starve(since.take(), take.sent);
                }
                (false, true) => {
                    sum.denied += 1;
                    since.get_or_insert(take.received);
                }
                (false, false) => {}
            }
        }
        sum.starve(since, last);
        sum
    }

    fn starve(&mut self, since: Option<Micros>, until: Micros) {
        let Some(since) = since else { return };
        if until.saturating_sub(since) > self.starved {
            (self.starved, self.starved_at) = (until - since, since);
        }
    }

    /// The mistakes about several buckets.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let worse = if other.starved > self.starved { other } else { self };
        Self { allowed: self.allowed + other.allowed, denied: self.denied + other.denied, ..worse }
    }
}
