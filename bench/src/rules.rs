//! The rules that are measured: what each limiter is told, and topup's config that says the same.

use std::fmt::Write;

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
    /// As [`Rule::Deep`], and each key is a limit of its own: see [`apart`].
    Apart,
    /// Buckets that are kept far below full while the daemon tops them up.
    FarBelow,
    /// Buckets that are full in some seconds.
    Filling,
    /// As [`Rule::FarBelow`] in the pure form, whose tokens come at ticks only: each is credited at each of them.
    Ticked,
}

/// Form of a limit of topup that says a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As its config does unless told otherwise.
    TokenBucket,
    /// With a lease of 100 tokens at most.
    Leased,
    /// With a lease of 1,000 tokens at most.
    LeasedMore,
    Lazy,
    Gcra,
    Leaky,
    /// Windows as long as the rule's period, which admit its tokens. Such limits have no capacity.
    Fixed,
    Counter,
    Log,
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

    const fn name(self) -> &'static str {
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

    /// The name of the topup limit that says this in `form`.
    pub(crate) fn limit(self, keyed: bool, form: Form) -> String {
        format!("{}-{}{}", self.name(), if keyed { "keyed" } else { "hot" }, form.suffix())
    }

    /// Whether topup's config says this in `form`: in those that are measured.
    fn has(self, keyed: bool, form: Form) -> bool {
        match form {
            Form::TokenBucket => true,
            Form::Leased | Form::LeasedMore => {
                matches!(self, Self::Draining | Self::Under | Self::Tight | Self::Few)
            }
            _ => keyed && self == Self::Few,
        }
    }
}

// === impl Form ===

impl Form {
    const ALL: [Self; 9] = [
        Self::TokenBucket,
        Self::Leased,
        Self::LeasedMore,
        Self::Lazy,
        Self::Gcra,
        Self::Leaky,
        Self::Fixed,
        Self::Counter,
        Self::Log,
    ];

    const fn suffix(self) -> &'static str {
        match self {
            Self::TokenBucket => "",
            Self::Leased => "-leased",
            Self::LeasedMore => "-leased-more",
            Self::Lazy => "-lazy",
            Self::Gcra => "-gcra",
            Self::Leaky => "-leaky",
            Self::Fixed => "-fixed",
            Self::Counter => "-counter",
            Self::Log => "-log",
        }
    }

    /// Config of a limit of this form that says `rule`, without name and key.
    fn terms(self, rule: Rule) -> String {
        let (capacity, tokens, period) = (rule.capacity(), rule.tokens(), rule.period());
        let bucket = |algorithm: &str| {
            format!("algorithm = \"{algorithm}\"\ncapacity = {capacity}\nrate = \"{tokens}/{period}s\"\n")
        };
        let window = |algorithm: &str| {
            format!("algorithm = \"{algorithm}\"\nlimit = {tokens}\nwindow = \"{period}s\"\n")
        };
        let leased = |max: u64| {
            let max = max.min(capacity);
            format!("{}lease = {{ max = {max}, ttl = \"1s\" }}\n", bucket("token-bucket"))
        };
        match self {
            Self::TokenBucket if rule == Rule::Ticked => bucket("token-bucket") + "catch_up = false\n",
            Self::TokenBucket => bucket("token-bucket"),
            Self::Leased => leased(100),
            Self::LeasedMore => leased(1_000),
            Self::Lazy => bucket("lazy-token-bucket"),
            Self::Gcra => bucket("gcra"),
            Self::Leaky => bucket("leaky-bucket"),
            Self::Fixed => window("fixed-window"),
            Self::Counter => window("sliding-counter"),
            Self::Log => window("sliding-window"),
        }
    }
}

/// The name of one of the limits of [`apart`].
pub(crate) fn apart_name(limit: usize) -> String {
    format!("limit-{limit}")
}

/// A config of topup with `limits` limits under the terms of [`Rule::Apart`]. The first has another capacity.
pub(crate) fn apart(url: &str, limits: usize, first: u64) -> String {
    let mut text = format!("[redis]\nurl = \"{url}\"\n");
    for limit in 0..limits {
        let (name, capacity) = (apart_name(limit), if limit == 0 { first } else { Rule::Apart.capacity() });
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[limit.{name}]\ncapacity = {capacity}\nrate = \"1/h\"\n");
    }
    text
}

/// topup's config for all rules but [`Rule::Apart`].
pub(crate) fn config(url: &str) -> String {
    let mut text = format!("[redis]\nurl = \"{url}\"\n");
    for rule in Rule::ALL {
        for (keyed, form) in [true, false].into_iter().flat_map(|keyed| Form::ALL.map(|form| (keyed, form))) {
            if rule.has(keyed, form) {
                let (name, terms) = (rule.limit(keyed, form), form.terms(rule));
                // Writing to a string cannot fail.
                let _ = write!(text, "\n[limit.{name}]\nkeyed = {keyed}\n{terms}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_tokens_by_period() {
        let rates = [Rule::Few, Rule::Calm, Rule::Brisk, Rule::Rare].map(Rule::rate);
        assert_eq!(rates, [10.0, 1.0, 100.0, 1.0 / 60.0]);
    }

    #[test]
    fn a_lease_is_no_larger_than_its_bucket() {
        let config = config("redis://127.0.0.1");
        assert!(config.contains("[limit.draining-hot-leased]\nkeyed = false\nalgorithm = \"token-bucket\""));
        assert!(config.contains("lease = { max = 1000, ttl = \"1s\" }"));
        assert_eq!(
            Form::LeasedMore.terms(Rule::Few).lines().last(),
            Some("lease = { max = 10, ttl = \"1s\" }")
        );
    }
}
