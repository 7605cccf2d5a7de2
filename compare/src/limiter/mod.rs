//! The limiters: topup's own algorithms, through the daemon and the client, and the forms as usually written.

mod ours;
pub mod rival;

use clap::ValueEnum;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{oracle::Ideal, rule::Rule, take::Answer};

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

/// A limiter, as a worker asks it.
pub trait Ask: Send + Sync {
    /// Takes `count` tokens of `key`, all or nothing.
    fn take<'a>(&'a self, key: &'a str, count: u64) -> BoxFuture<'a, anyhow::Result<Answer>>;
}

/// A limiter, what it is told, and where its state is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimiterUnderTest {
    /// The limiter.
    pub limiter: Limiter,
    /// Its rule.
    pub rule: Rule,
    /// The limit's name, or what a rival's keys begin with: as many as there are runs.
    pub name: String,
}

/// The beginning of the keys of all rivals.
pub const RIVAL_PREFIX: &str = "topup-compare:";

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
            _ => Ideal::Bucket,
        }
    }

    /// Whether something has to run that refills it.
    pub const fn is_refilled(self) -> bool {
        matches!(self, Self::TokenBucket | Self::TokenBucketPure | Self::TokenBucketLeased)
            || self.is_ticked()
    }

    /// Whether that is a task that walks over every key there is.
    pub const fn is_ticked(self) -> bool {
        matches!(self, Self::TickUnclamped | Self::TickClamped)
    }

    /// Whether it can be told `rule`: windows of a config are whole ms.
    pub const fn can_be_told(self, rule: &Rule) -> bool {
        !self.counts_windows() || rule.window().is_multiple_of(1_000)
    }

    /// Whether its config says how much in which window, in place of capacity and rate.
    const fn counts_windows(self) -> bool {
        matches!(
            self,
            Self::FixedWindow | Self::FixedWindowAligned | Self::SlidingWindow | Self::SlidingCounter
        )
    }

    /// The lines of a limit's config that choose it; `None` for rivals.
    const fn config_lines(self) -> Option<&'static str> {
        match self {
            Self::TokenBucket => Some("algorithm = \"token-bucket\""),
            Self::TokenBucketPure => Some("algorithm = \"token-bucket\"\ncatch_up = false"),
            Self::TokenBucketLeased => Some("algorithm = \"token-bucket\"\nlease = { max = LEASE }"),
            Self::LazyTokenBucket => Some("algorithm = \"lazy-token-bucket\""),
            Self::Gcra => Some("algorithm = \"gcra\""),
            Self::LeakyBucket => Some("algorithm = \"leaky-bucket\""),
            Self::FixedWindow => Some("algorithm = \"fixed-window\""),
            Self::FixedWindowAligned => Some("algorithm = \"fixed-window\"\naligned = true"),
            Self::SlidingWindow => Some("algorithm = \"sliding-window\""),
            Self::SlidingCounter => Some("algorithm = \"sliding-counter\""),
            _ => None,
        }
    }
}

// === impl LimiterUnderTest ===

impl LimiterUnderTest {
    /// `limiter` under `rule` in the run `run`.
    pub fn new(limiter: Limiter, rule: Rule, run: &str) -> Self {
        let name = if limiter.is_ours() {
            format!("compare-{}-{run}", limiter.name())
        } else {
            format!("{RIVAL_PREFIX}{}:{run}", limiter.name())
        };
        Self { limiter, rule, name }
    }

    /// Its table of the daemon's config; `None` for rivals.
    pub fn config(&self) -> Option<String> {
        let lines = self.limiter.config_lines()?;
        let Self { rule, name, .. } = self;
        // As many as come in a tick or so: enough to save commands, few enough not to strand them.
        let lines = lines.replace("LEASE", &(rule.capacity / 8).max(1).to_string());
        let (capacity, rate) = (rule.capacity, rule.rate_text());
        let terms = if self.limiter.counts_windows() {
            format!("limit = {capacity}\nwindow = \"{}ms\"", rule.window() / 1_000)
        } else {
            format!("capacity = {capacity}\nrate = \"{rate}\"")
        };
        // In quotes, for a name may have a dot.
        Some(format!("[limit.{name:?}]\nkeyed = true\nshards = 1\n{terms}\n{lines}\n"))
    }

    /// Connects a worker whose clock is off by `skew` µs to the Redis at `redis`.
    ///
    /// # Errors
    /// When `redis` is no Redis that answers.
    pub async fn asker(&self, redis: &str, worker: u32, skew: i64) -> anyhow::Result<Box<dyn Ask>> {
        if self.limiter.is_ours() {
            return Ok(Box::new(ours::Ours::connect(redis, self).await?));
        }
        rival::asker(redis, self, worker, skew)
    }
}

#[cfg(test)]
mod tests {
    use topup_daemon::config::Config;

    use super::*;
    use crate::traffic::{Traffic, all};

    /// A daemon told otherwise would refuse the whole file.
    #[test]
    fn every_limiter_of_ours_can_be_configured_for_every_traffic() {
        for Traffic { name, rule, .. } in all(4.0) {
            let ours = Limiter::all().iter().filter(|limiter| limiter.is_ours());
            for under_test in ours.map(|limiter| LimiterUnderTest::new(*limiter, rule, &name)) {
                let text = under_test.config().unwrap();
                let config =
                    Config::parse(&text, "config.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
                assert!(config.limits.contains_key(under_test.name.as_str()), "{text}");
            }
        }
    }
}
