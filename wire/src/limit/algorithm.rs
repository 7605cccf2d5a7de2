//! Algorithms of limits.

use std::{fmt, str::FromStr};

use super::UnknownWord;

/// An algorithm by which a limit decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A counter in Redis, topped up by the daemon, taken from with `DECR`.
    #[default]
    TokenBucket,
    /// A bucket refilled by the script of each take; needs no daemon.
    LazyTokenBucket,
    /// The same decisions from a single instant, the theoretical arrival time; needs no daemon.
    Gcra,
    /// A bucket that taken tokens fill, and that leaks at the rate. As a queue, it tells when to proceed. Needs no
    /// daemon.
    LeakyBucket,
    /// A number of tokens within a window that begins with its first take, or at a multiple of its length.
    FixedWindow,
    /// A number of tokens within any time as long as a window, by a log of all takes. Several rules at once.
    SlidingWindow,
    /// About a number of tokens within any time as long as a window, by the takes of two windows.
    SlidingCounter,
    /// Permits that are held at once, in place of tokens: acquired, kept alive and released. Workers in need wait in order.
    Concurrency,
    /// A bucket whose capacity and rate are divided among parts. Tokens that idle parts leave are lent to the others.
    FairShares,
}

// === impl Algorithm ===

impl Algorithm {
    /// Every algorithm of tokens that decides each key by itself.
    pub const ALL: [Self; 7] = [
        Self::TokenBucket,
        Self::LazyTokenBucket,
        Self::Gcra,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
    ];
    /// Every algorithm.
    pub const EVERY: [Self; 9] = {
        let [a, b, c, d, e, f, g] = Self::ALL;
        [a, b, c, d, e, f, g, Self::Concurrency, Self::FairShares]
    };

    /// The word in config, records and status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LazyTokenBucket => "lazy-token-bucket",
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky-bucket",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingCounter => "sliding-counter",
            Self::Concurrency => "concurrency",
            Self::FairShares => "fair-shares",
        }
    }

    /// Whether limits have rules about windows of time in place of a rate.
    pub const fn has_windows(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingWindow | Self::SlidingCounter)
    }

    /// Whether limits have permits in place of tokens.
    pub const fn has_permits(self) -> bool {
        matches!(self, Self::Concurrency)
    }

    /// Whether limits have parts that lend to each other.
    pub const fn has_parts(self) -> bool {
        matches!(self, Self::FairShares)
    }

    /// Whether only scripts take: there is no daemon, and no index of buckets.
    pub const fn is_script_only(self) -> bool {
        !matches!(self, Self::TokenBucket)
    }
}

impl FromStr for Algorithm {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let known = Self::EVERY.into_iter().find(|algorithm| algorithm.as_str() == word);
        known.ok_or_else(|| UnknownWord::new(word, Self::EVERY.map(Self::as_str)))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
