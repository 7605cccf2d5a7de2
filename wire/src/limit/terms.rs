//! Everything a published limit says.

use std::{num::NonZeroU16, str::FromStr, time::Duration};

use super::{Algorithm, Capacity, Lease, LimitName, Percent, Rate, Rollout, Windows};
use crate::bucket::Pace;

/// What a change of capacity does with the tokens a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnChange {
    /// Tokens stay, clamped to a lower capacity.
    #[default]
    Keep,
    /// A bucket stays as full as it was: tokens are scaled by new over old capacity, rounded down.
    Proportional,
    /// Every bucket is full at the new capacity.
    Reset,
}

/// The time a calendar quota stands for, in µs of Redis `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The instant at which buckets were last filled.
    pub since: u64,
    /// The instant at which they will be filled next.
    pub next: u64,
}

/// The longest that a token is in the hands of a worker of a limit without a lease: many tasks ask for one bucket at once.
pub const BURST_TTL: Duration = Duration::from_millis(10);

/// Where tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Steadily, at a rate.
    Rate(Rate),
    /// All at once, at calendar instants.
    Period(Period),
    /// As what was taken leaves the windows it counts in.
    Windows(Windows),
}

/// The number of hash tags a limit's buckets are spread over: 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(NonZeroU16);

/// A number of shards outside 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit has 1 to 1024 shards, not {0}")]
pub struct ShardsError(pub u64);

/// What a limit promises: the part of it that may change while buckets live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most tokens a bucket holds.
    pub capacity: Capacity,
    /// Where its tokens come from.
    pub supply: Supply,
}

/// A word that names no variant of the type asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not known here: write one of {known}")]
pub struct UnknownWord {
    /// The word as given.
    pub given: String,
    /// The words that would do.
    pub known: String,
}

/// A limit as the daemon publishes it and workers read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its name.
    pub name: LimitName,
    /// One bucket per key, or one for all.
    pub keyed: bool,
    /// How it decides.
    pub algorithm: Algorithm,
    /// Capacity and supply.
    pub terms: Terms,
    /// Whether an empty bucket is credited at the take that finds it empty.
    pub catch_up: bool,
    /// What becomes of tokens when the terms change.
    pub on_change: OnChange,
    /// The refill period.
    pub tick: Duration,
    /// How many hash tags its buckets are spread over.
    pub shards: Shards,
    /// What a worker may take ahead, if anything.
    pub lease: Option<Lease>,
    /// For whom it is in force.
    pub rollout: Rollout,
    /// Whether other terms are tried beside it, as [`LimitName::candidate`].
    pub candidate: bool,
    /// The keys for which it is compared with lazy buckets, as [`LimitName::lazy`]; any but none for a limit that is not
    /// keyed.
    pub compared: Percent,
}

// === impl OnChange ===

impl OnChange {
    /// The word in config and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Proportional => "proportional",
            Self::Reset => "reset",
        }
    }
}

impl FromStr for OnChange {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "keep" => Ok(Self::Keep),
            "proportional" => Ok(Self::Proportional),
            "reset" => Ok(Self::Reset),
            _ => Err(UnknownWord::new(word, [Self::Keep, Self::Proportional, Self::Reset].map(Self::as_str))),
        }
    }
}

// === impl UnknownWord ===

impl UnknownWord {
    pub(super) fn new<const N: usize>(given: &str, known: [&str; N]) -> Self {
        Self { given: given.to_owned(), known: known.map(|word| format!("{word:?}")).join(", ") }
    }
}

// === impl Shards ===

impl Shards {
    /// One hash tag: the whole limit on one node.
    pub const ONE: Self = Self(NonZeroU16::MIN);

    /// `count` hash tags.
    ///
    /// # Errors
    /// When `count` is outside 1 to 1024.
    pub fn new(count: u64) -> Result<Self, ShardsError> {
        let checked = u16::try_from(count).ok().filter(|n| *n <= 1024).and_then(NonZeroU16::new);
        checked.map(Self).ok_or(ShardsError(count))
    }

    /// How many.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

// === impl Limit ===

impl Limit {
    /// The longest that a worker may have tokens of a bucket in hand, by a clock that runs slow. Whoever puts tokens into a
    /// bucket that others take from waits for that.
    pub fn in_hand_for(&self) -> Duration {
        let ttl = self.lease.map_or(BURST_TTL, Lease::ttl);
        ttl + ttl / 63 + Duration::from_millis(1)
    }

    /// Whether there is anything to be counted: it is not in force for all, or something is tried beside it.
    pub fn has_trial(&self) -> bool {
        !self.rollout.is_whole() || self.candidate || self.compared > Percent::NONE
    }

    /// Whether the takes of `key` are compared; `None` is whoever asks a limit that has one bucket for all.
    pub fn is_compared(&self, key: Option<&str>) -> bool {
        key.map_or(self.compared > Percent::NONE, |key| self.compared.has(key))
    }
}

// === impl Supply ===

impl Supply {
    /// The rate in lowest terms. `(0, 1)` for a calendar quota, which gets no tokens between its instants, and for
    /// windows, whose tokens come as they were taken.
    pub const fn lowest_terms(self) -> (u64, u64) {
        let Pace { n, p } = self.pace();
        (n, p)
    }

    /// The same as a [`Pace`].
    pub const fn pace(self) -> Pace {
        match self {
            Self::Rate(rate) => rate.pace(),
            Self::Period(_) | Self::Windows(_) => Pace { n: 0, p: 1 },
        }
    }
}
