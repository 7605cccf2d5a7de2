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
    /// 100 a second for each key.
    Steady,
    /// 1,000 a second, and the load asks for all it can get.
    Tight,
    /// 10 a second for each key, and the load asks for more.
    Few,
    /// One token, and another an hour later: denied as good as always.
    Slow,
    /// As [`Rule::Deep`], and each key is a limit of its own: see [`apart`].
    Apart,
    /// Buckets that are kept far below full while the daemon tops them up.
    Crowd,
    /// Buckets that are full in some seconds.
    Filling,
    /// As [`Rule::Crowd`] in the pure form, whose tokens come at ticks only: each is credited at each of them.
    Ticked,
}

// === impl Rule ===

impl Rule {
    pub(crate) const ALL: [Self; 10] = [
        Self::Draining,
        Self::Deep,
        Self::Under,
        Self::Steady,
        Self::Tight,
        Self::Few,
        Self::Slow,
        Self::Crowd,
        Self::Filling,
        Self::Ticked,
    ];

    pub(crate) const fn capacity(self) -> u64 {
        match self {
            Self::Draining | Self::Deep | Self::Under | Self::Apart => 1_000_000_000,
            Self::Steady | Self::Crowd | Self::Filling | Self::Ticked => 1_000_000,
            Self::Tight => 1_000,
            Self::Few => 10,
            Self::Slow => 1,
        }
    }

    /// Tokens a second, in whole numbers.
    pub(crate) const fn per_second(self) -> u64 {
        match self {
            Self::Deep | Self::Slow | Self::Apart => 0,
            Self::Draining => 1,
            Self::Under => 1_000_000_000,
            Self::Steady => 100,
            Self::Tight | Self::Crowd | Self::Filling | Self::Ticked => 1_000,
            Self::Few => 10,
        }
    }

    /// Tokens taken from each bucket of a crowd, of which the daemon is to have work.
    pub(crate) const fn crowd_take(self) -> u64 {
        match self {
            // Full in 7.9 s: credited as often as any bucket with catch-up is.
            Self::Filling => 7_900,
            // Full in six minutes: credited every 102.4 s, until it is nearer.
            _ => 400_000,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Deep => "deep",
            Self::Under => "under",
            Self::Steady => "steady",
            Self::Tight => "tight",
            Self::Few => "few",
            Self::Slow => "slow",
            Self::Apart => "apart",
            Self::Crowd => "crowd",
            Self::Filling => "filling",
            Self::Ticked => "ticked",
        }
    }

    /// The name of the topup limit that says this.
    pub(crate) fn limit(self, keyed: bool, leased: bool) -> String {
        let (keyed, leased) = (if keyed { "keyed" } else { "hot" }, if leased { "-leased" } else { "" });
        format!("{}-{keyed}{leased}", self.name())
    }
}

/// The name of one of the limits of [`apart`].
pub(crate) fn apart_name(limit: usize) -> String {
    format!("limit-{limit}")
}

/// topup's config of `limits` limits that say what [`Rule::Apart`] says, but for the capacity of the first.
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
    let kinds = [(true, false), (true, true), (false, false), (false, true)];
    for rule in Rule::ALL {
        for (keyed, leased) in kinds {
            let (name, capacity) = (rule.limit(keyed, leased), rule.capacity());
            let rate = match rule.per_second() {
                0 => "1/h".to_owned(),
                rate => format!("{rate}/s"),
            };
            // Writing to a string cannot fail.
            let _ =
                write!(text, "\n[limit.{name}]\nkeyed = {keyed}\ncapacity = {capacity}\nrate = \"{rate}\"\n");
            if rule == Rule::Ticked {
                text.push_str("catch_up = false\n");
            }
            if leased {
                let _ = writeln!(text, "lease = {{ max = {}, ttl = \"1s\" }}", capacity.min(10_000));
            }
        }
    }
    text
}
