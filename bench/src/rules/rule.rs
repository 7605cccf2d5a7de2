//! A rule: so many at once, so many a second in the long run.

use clap::ValueEnum;

/// A rule: so many at once, so many a second in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rule {
    /// Far more tokens than are ever taken, and one more each second: asked more often, a bucket is below full for good.
    Draining,
    /// The same, with one more each hour: below full for good however many keys share the load.
    Deep,
    /// Refilled faster than anybody takes: every bucket is full again before its next take.
    Under,
    /// 100 a second for each key, 1,000,000 at once.
    Steady,
    /// 1,000 a second, and the load asks for all it can get.
    Tight,
    /// 10 a second for each key, 10 at once.
    Few,
    /// 1 a second for each key, 10 at once.
    Calm,
    /// 100 a second for each key, 10 at once.
    Brisk,
    /// 200 a second for each key, 10 at once.
    Swift,
    /// 30 a second for each key, 10 at once: a token's time is no whole number of µs.
    Uneven,
    /// One a minute for each key, 10 at once.
    Rare,
    /// One token, and another each hour. Nearly all takes are denied.
    Slow,
    /// As [`Rule::Deep`], and each key is a limit of its own: see [`apart`](super::apart).
    Apart,
    /// Buckets that are kept far below full while the daemon tops them up.
    FarBelow,
    /// Buckets that are full in some seconds.
    Filling,
    /// As [`Rule::FarBelow`] in the pure form, whose tokens come at ticks only: each is credited at each of them.
    Ticked,
}

// === impl Rule ===

impl Rule {
    pub(crate) const ALL: [Self; 15] = [
        Self::Draining,
        Self::Deep,
        Self::Under,
        Self::Steady,
        Self::Tight,
        Self::Few,
        Self::Calm,
        Self::Brisk,
        Self::Swift,
        Self::Uneven,
        Self::Rare,
        Self::Slow,
        Self::FarBelow,
        Self::Filling,
        Self::Ticked,
    ];

    pub(crate) const fn capacity(self) -> u64 {
        match self {
            Self::Draining | Self::Deep | Self::Under | Self::Apart => 1_000_000_000,
            Self::Steady | Self::FarBelow | Self::Filling | Self::Ticked => 1_000_000,
            Self::Tight => 1_000,
            Self::Few | Self::Calm | Self::Brisk | Self::Swift | Self::Uneven | Self::Rare => 10,
            Self::Slow => 1,
        }
    }

    /// Tokens that come in each of its periods.
    pub(crate) const fn tokens(self) -> u64 {
        match self {
            Self::Deep | Self::Slow | Self::Apart | Self::Draining | Self::Calm | Self::Rare => 1,
            Self::Under => 1_000_000_000,
            Self::Steady | Self::Brisk => 100,
            Self::Swift => 200,
            Self::Uneven => 30,
            Self::Tight | Self::FarBelow | Self::Filling | Self::Ticked => 1_000,
            Self::Few => 10,
        }
    }

    /// Length of its period in seconds.
    pub(crate) const fn period(self) -> u64 {
        match self {
            Self::Deep | Self::Slow | Self::Apart => 3_600,
            Self::Rare => 60,
            _ => 1,
        }
    }

    /// Tokens a second.
    pub(crate) const fn rate(self) -> f64 {
        self.tokens() as f64 / self.period() as f64
    }

    /// Tokens a second, in whole numbers.
    pub(crate) const fn per_second(self) -> u64 {
        self.tokens() / self.period()
    }

    /// Tokens taken from each bucket at first, so that the daemon has work.
    pub(crate) const fn take_to_fill(self) -> u64 {
        match self {
            // Full in 7.9 s: credited as often as any bucket with catch-up is.
            Self::Filling => 7_900,
            // Full in six minutes: credited every 102.4 s, until it is nearer.
            _ => 400_000,
        }
    }

    /// As given on the command line of a worker.
    pub(crate) fn argument(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Deep => "deep",
            Self::Under => "under",
            Self::Steady => "steady",
            Self::Tight => "tight",
            Self::Few => "few",
            Self::Calm => "calm",
            Self::Brisk => "brisk",
            Self::Swift => "swift",
            Self::Uneven => "uneven",
            Self::Rare => "rare",
            Self::Slow => "slow",
            Self::Apart => "apart",
            Self::FarBelow => "far-below",
            Self::Filling => "filling",
            Self::Ticked => "ticked",
        }
    }
}
