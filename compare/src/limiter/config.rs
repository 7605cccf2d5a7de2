//! The daemon's config for topup's own limiters.

use super::{Limiter, LimiterUnderTest, held};
use crate::{
    oracle::{PENALTY, WEIGHTS},
    penalty::Penalty,
    rule::Rule,
};

// === impl Limiter ===

impl Limiter {
    /// The lines of a limit's config that choose it; `None` for rivals.
    pub(super) const fn config_lines(self) -> Option<&'static str> {
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
