//! The limiters: topup's own algorithms, through the daemon and the client, and the forms as usually written.

mod held;
mod ours;
pub mod rival;

use clap::ValueEnum;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use topup_lab::clock::Micros;

pub use held::Held;

use crate::{
    oracle::{Ideal, PENALTY, WEIGHTS, least_capacity},
    penalty::Penalty,
    rule::Rule,
    take::Answer,
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

/// A limiter, as a worker asks it.
pub trait Ask: Send + Sync {
    /// Takes `count` tokens of `key`, all or nothing.
    fn take<'a>(&'a self, key: &'a str, count: u64) -> BoxFuture<'a, anyhow::Result<Answer>>;

    /// The same of tokens that are held for a while; `None` for a limiter that has no such.
    fn hold<'a>(&'a self, _key: &'a str, _count: u64) -> Option<BoxFuture<'a, HeldOrNot>> {
        None
    }
}

/// The answer, and what is held if it allows.
type HeldOrNot = anyhow::Result<(Answer, Option<Held>)>;

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

/// The longest time for which anything is held, in µs.
const MOST_HELD: Micros = 250_000;
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
            Self::TokenBucketPlanned => Some("plan.tried = { PLAN }\nkeys = { \"*\" = \"tried\" }"),
            Self::TokenBucketSettled => Some("algorithm = \"token-bucket\"\nmax_debt = DEBT"),
            Self::Concurrency => Some("algorithm = \"concurrency\"\nttl = \"30s\""),
            Self::FairShares => Some("share = \"borrow\"\nparts = { PARTS }"),
            Self::TokenBucketPenalized => Some("penalty = { PENALTY }"),
            // Its program defines it.
            Self::TokenBucketDefined => Some(""),
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

    /// The time for which tokens or permits are held, in µs.
    fn held_for(&self) -> Micros {
        match self.limiter {
            // As long as it takes to fill a bucket: so a load of 1 needs all permits.
            Limiter::Concurrency => self.rule.window().min(MOST_HELD),
            _ => (2 * self.rule.token()).min(MOST_HELD),
        }
    }

    /// Its table of the daemon's config; `None` for rivals, and for a limit that no config has.
    pub fn config(&self) -> Option<String> {
        let lines = self.limiter.config_lines().filter(|lines| !lines.is_empty())?;
        let Self { rule, name, .. } = self;
        let capacity = rule.capacity;
        let rated = |rule: Rule| (rule.capacity, rule.rate_text());
        // As many as come in a tick or so: enough to save commands, few enough not to strand them.
        let lines = lines.replace("LEASE", &(capacity / 8).max(1).to_string());
        let lines = lines.replace("DEBT", &held::most_debt(rule).to_string());
        let lines = lines.replace("PARTS", &parts()).replace("PENALTY", &penalty());
        let (_, rate) = rated(*rule);
        let lines = lines.replace("PLAN", &format!("capacity = {capacity}, rate = \"{rate}\""));
        let terms = match self.limiter {
            limiter if limiter.counts_windows() => {
                format!("limit = {capacity}\nwindow = \"{}ms\"", rule.window() / 1_000)
            }
            Limiter::Concurrency => format!("limit = {capacity}"),
            // Its own terms give twice as much: who forgets the plan is found out.
            Limiter::TokenBucketPlanned => {
                let (capacity, rate) = rated(Rule { capacity: 2 * capacity, ..rule.sped_up(2) });
                format!("capacity = {capacity}\nrate = \"{rate}\"")
            }
            _ => format!("capacity = {capacity}\nrate = \"{rate}\""),
        };
        // Parts that borrow are in one place anyway.
        let shards = if self.limiter == Limiter::FairShares { "" } else { "shards = 1\n" };
        // In quotes, for a name may have a dot.
        Some(format!("[limit.{name:?}]\nkeyed = true\n{shards}{terms}\n{lines}\n"))
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

/// The parts of keys, the last of which is that of all others.
fn parts() -> String {
    let last = WEIGHTS.len() - 1;
    let name = |index: usize| if index == last { "*".to_owned() } else { index.to_string() };
    let parts = WEIGHTS.iter().enumerate().map(|(index, weight)| format!("{:?} = {weight}", name(index)));
    parts.collect::<Vec<_>>().join(", ")
}

fn penalty() -> String {
    let Penalty { after, within, block, factor, longest } = PENALTY;
    let [within, block, longest] = [within, block, longest].map(|time| time / 1_000);
    format!(
        "after = {after}, within = \"{within}ms\", block = \"{block}ms\", factor = {factor}, max = \"{longest}ms\""
    )
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
            let (told, others): (Vec<&Limiter>, Vec<&Limiter>) =
                ours.partition(|limiter| limiter.unfit_for(&rule).is_none());
            assert!(others.iter().all(|limiter| limiter.ideal().is_special()), "{others:?}");
            for under_test in told.into_iter().map(|limiter| LimiterUnderTest::new(*limiter, rule, &name)) {
                let Some(text) = under_test.config() else { continue };
                let config =
                    Config::parse(&text, "config.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
                assert!(config.limits.contains_key(under_test.name.as_str()), "{text}");
            }
        }
    }
}
