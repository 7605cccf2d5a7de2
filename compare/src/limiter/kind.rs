//! Every limiter: its name, its perfect limiter, and the rules that it is unfit for.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::{
    oracle::{Ideal, PENALTY, least_capacity},
    rule::Rule,
};

/// A limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limiter {
    /// topup: a counter that the daemon tops up.
    TokenBucket,
    /// topup: the same with tokens at ticks only.
    TokenBucketPure,
    /// topup: the same with tokens taken ahead.
    TokenBucketLeased,
    /// topup: refilled by the script of each take.
    LazyTokenBucket,
    /// topup: a single instant for each bucket.
    Gcra,
    /// topup: a level that leaks at the rate.
    LeakyBucket,
    /// topup: a count in a window that begins with its first take.
    FixedWindow,
    /// topup: the same in windows that begin at whole multiples of their length.
    FixedWindowAligned,
    /// topup: a log of all that was taken within the last window.
    SlidingWindow,
    /// topup: two counts, of this window and the last, for about the same.
    SlidingCounter,
    /// topup: a token bucket whose keys have their terms by a plan.
    TokenBucketPlanned,
    /// topup: a token bucket of which an estimate is taken, and what was used is charged afterwards.
    TokenBucketSettled,
    /// topup: at most so many at once, in place of tokens.
    Concurrency,
    /// topup: one bucket for all keys, which share it by weight and borrow from each other.
    FairShares,
    /// topup: a token bucket whose keys are blocked for a while after 20 denied takes.
    TokenBucketPenalized,
    /// topup: a token bucket that a program defines, with other terms in the first half.
    TokenBucketDefined,
    /// As usually written: a bucket refilled by the script of each take, by Redis's clock.
    LazyLua,
    /// As usually written: the same by the clock of whoever asks.
    LazyWorkerClock,
    /// As usually written: GET, then INCR.
    FixedRacy,
    /// As usually written: INCR and EXPIRE in one script.
    FixedLua,
    /// As usually written: a sorted set of all requests, in one pipeline.
    LogPipelined,
    /// As usually written: a level and an instant under two keys, read and then written.
    LeakyTwoKeys,
    /// As usually written: a task adds what comes in a tick to every counter that is not full.
    TickUnclamped,
    /// As usually written: the same up to capacity, in whole tokens.
    TickClamped,
}

// === impl Limiter ===

impl Limiter {
    /// All there are.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// A short description.
    pub fn says(self) -> String {
        let help = self.to_possible_value().and_then(|value| Some(value.get_help()?.to_string()));
        help.unwrap_or_default()
    }

    /// Whether it is one of topup's.
    pub const fn is_ours(self) -> bool {
        self.config_lines().is_some()
    }

    /// The perfect limiter that it is held against.
    pub const fn ideal(self) -> Ideal {
        match self {
            Self::FixedWindow | Self::FixedRacy | Self::FixedLua => Ideal::FixedByFirst,
            Self::FixedWindowAligned => Ideal::Fixed,
            Self::SlidingWindow | Self::SlidingCounter | Self::LogPipelined => Ideal::Sliding,
            Self::TokenBucketSettled => Ideal::Settled,
            Self::Concurrency => Ideal::Permits,
            Self::FairShares => Ideal::Shares,
            Self::TokenBucketPenalized => Ideal::Penalized,
            Self::TokenBucketDefined => Ideal::Defined,
            _ => Ideal::Bucket,
        }
    }

    /// Whether something has to run that refills it.
    pub const fn is_refilled(self) -> bool {
        matches!(
            self,
            Self::TokenBucket
                | Self::TokenBucketPure
                | Self::TokenBucketLeased
                | Self::TokenBucketPlanned
                | Self::TokenBucketSettled
                | Self::TokenBucketPenalized
                | Self::TokenBucketDefined
        ) || self.is_ticked()
    }

    /// Whether that is a task that walks over every key there is.
    pub const fn is_ticked(self) -> bool {
        matches!(self, Self::TickUnclamped | Self::TickClamped)
    }

    /// The reason why it is not asked under `rule`. Windows of a config are whole ms. Each part holds a token. A block lasts
    /// longer than any other wait.
    pub fn unfit_for(self, rule: &Rule) -> Option<String> {
        let window = rule.window();
        if self.counts_windows() && !window.is_multiple_of(1_000) {
            return Some(format!("a window of {window} µs is no whole number of ms"));
        }
        match self {
            Self::FairShares if rule.capacity < least_capacity() => {
                Some(format!("a capacity of {} is less than a token for each part", rule.capacity))
            }
            // Denials of a bucket and of a block are told apart by their waits.
            Self::TokenBucketPenalized if rule.token() > PENALTY.block / 10 => {
                Some(format!("a wait of {} µs for a token may be a block", rule.token()))
            }
            _ => None,
        }
    }

    /// Whether its config says how much in which window, in place of capacity and rate.
    pub(super) const fn counts_windows(self) -> bool {
        matches!(
            self,
            Self::FixedWindow | Self::FixedWindowAligned | Self::SlidingWindow | Self::SlidingCounter
        )
    }
}
