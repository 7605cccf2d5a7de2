//! The form of a limit of topup that says a rule.

use super::rule::Rule;

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

// === impl Form ===

impl Form {
    pub(super) const ALL: [Self; 9] = [
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

    pub(super) const fn suffix(self) -> &'static str {
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
    pub(super) fn terms(self, rule: Rule) -> String {
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
