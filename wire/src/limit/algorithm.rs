//! How a limit decides.

use std::{fmt, str::FromStr};

use super::UnknownWord;

/// How a limit decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A counter in Redis, topped up by the daemon, taken from with `DECR`.
    #[default]
    TokenBucket,
    /// A bucket refilled by the script of each take; needs no daemon.
    LazyTokenBucket,
    /// The same decisions from a single instant, the theoretical arrival time; needs no daemon.
    Gcra,
    /// What is taken leaks at the rate; as a queue, it tells when to proceed. Needs no daemon.
    LeakyBucket,
    /// So many tokens within a window that begins with its first take, or at a multiple of its length.
    FixedWindow,
    /// So many within any time as long as a window, by a log of all takes; several rules at once.
    SlidingWindow,
    /// About so many within any time as long as a window, by what was taken in two of them.
    SlidingCounter,
}

// === impl Algorithm ===

impl Algorithm {
    /// Every algorithm there is.
    pub const ALL: [Self; 7] = [
        Self::TokenBucket,
        Self::LazyTokenBucket,
        Self::Gcra,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
    ];

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
        }
    }

    /// Whether it says how much may be taken within a time, and not how fast tokens come.
    pub const fn has_windows(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingWindow | Self::SlidingCounter)
    }

    /// Whether the script of each operation is all it needs: no daemon, no index of its buckets.
    pub const fn is_script_only(self) -> bool {
        !matches!(self, Self::TokenBucket)
    }
}

impl FromStr for Algorithm {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == word);
        known.ok_or_else(|| UnknownWord::new(word, Self::ALL.map(Self::as_str)))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
