//! The exact oracle: what a perfect limiter does, in whole numbers, and which decisions were certainly wrong.
//!
//! It knows these kinds of perfection: a bucket that fills continuously, a window that slides, windows side by side, and
//! permits. A bucket may also have parts that lend to each other, blocked keys, or terms that change. Each is fed with
//! the very instants of the takes it judges.

mod books;
mod bucket;
mod credit;
#[cfg(test)]
mod defined_tests;
mod fixed;
#[cfg(test)]
mod held_tests;
mod in_flight;
#[cfg(test)]
mod penalized_tests;
mod penalty;
mod perfect;
mod permits;
#[cfg(test)]
mod shared_tests;
mod shares;
mod sliding;
#[cfg(test)]
mod tests;
mod windows;

use serde::{Deserialize, Serialize};

use books::Books;
pub use credit::Change;
use credit::Credit;
pub use penalty::PENALTY;
pub use perfect::Perfect;
pub use shares::{WEIGHTS, least_capacity};
use topup_lab::clock::Micros;
pub use windows::{Windows, Worst, worst_of};

use crate::{
    rule::Rule,
    take::{Take, by_bucket},
};

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
    /// A bucket of which an estimate is taken. The use is charged afterwards, into a debt of `capacity` at most.
    Settled,
    /// At most `capacity` at once.
    Permits,
    /// A bucket for all keys, of which each part is sure of its own by [`WEIGHTS`] and borrows what others leave.
    Shares,
    /// A bucket whose key is blocked under [`PENALTY`].
    Penalized,
    /// A bucket whose terms may change once.
    Defined,
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
    /// The terms before, where they change.
    pub change: Option<Change>,
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
    /// All of those whose tokens are taken for good.
    pub const ALL: [Self; 4] = [Self::Bucket, Self::Sliding, Self::Fixed, Self::FixedByFirst];

    /// For tables.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Bucket => "token bucket",
            Self::Sliding => "sliding window",
            Self::Fixed => "fixed window",
            Self::FixedByFirst => "window from the first take on",
            Self::Settled => "token bucket, settled",
            Self::Permits => "permits",
            Self::Shares => "fair shares",
            Self::Penalized => "token bucket with a penalty",
            Self::Defined => "token bucket, defined",
        }
    }

    /// Whether more than its rule decides a take.
    pub const fn is_special(self) -> bool {
        matches!(self, Self::Settled | Self::Permits | Self::Shares | Self::Penalized | Self::Defined)
    }

    /// The takes that it decides by each other, in the order of their answers.
    pub fn groups(self, takes: &[Take]) -> Vec<Vec<Take>> {
        if self != Self::Shares {
            return by_bucket(takes);
        }
        let mut all = takes.to_vec();
        all.sort_by_key(|take| (take.received, take.sent));
        vec![all]
    }
}

// === impl Oracle ===

impl Oracle {
    /// Decisions of a perfect limiter about the takes `asked`: instant and tokens, in order.
    pub fn path(&self, asked: impl IntoIterator<Item = (Micros, u64)>) -> Vec<bool> {
        let mut perfect = Perfect::new(self);
        asked.into_iter().map(|(at, count)| perfect.take(at, count)).collect()
    }

    /// Wrong decisions about one of the [groups](Ideal::groups) of takes.
    pub fn judge(&self, takes: &[Take]) -> Wrong {
        let wrong = match self.ideal {
            Ideal::Bucket | Ideal::Settled => {
                let books = Books::of(takes);
                return Wrong::of(&books.entries, &bucket::wrong(&self.rule, &books));
            }
            Ideal::Defined => {
                let credit = Credit::of(self.rule, self.change);
                bucket::judge(credit, &Books::of(takes), bucket::Takes::Own)
            }
            Ideal::Permits => permits::wrong(self.rule.capacity, takes),
            Ideal::Shares => shares::wrong(&self.rule, takes),
            Ideal::Penalized => penalty::wrong(&self.rule, takes),
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
            match (take.is_allowed() || take.is_charge(), wrong) {
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
