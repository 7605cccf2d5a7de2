//! The terms of a limit that code defines.

use std::{fmt::Display, time::Duration};

use super::{
    Algorithm, Capacity, GCRA_BOUNDS, Holds, Lease, Limit, LimitName, Mode, OnAbandon, OnChange, OnOutage,
    Percent, PermitTtl, Rate, Supply, Terms, Windows, permits_at_once,
};

/// The terms of a limit, as `[limit.name]` has them in the config of the daemon.
///
/// Rates and windows are written as there: `10/s`, `500/min`, `7/3h`. A wrong value is an error where the terms are
/// used, and changes nothing. The limit has one bucket, unless it is [`keyed`](Self::keyed).
///
/// All buckets of the limit are on one node of a Redis Cluster.
#[derive(Clone, Debug)]
#[must_use = "terms limit nothing until a limit is defined by them"]
pub struct CodeTerms(pub(super) Result<Limit, String>);

// === impl CodeTerms ===

impl CodeTerms {
    /// A bucket of `capacity` tokens that come at `rate`. Most takes are native commands.
    pub fn token_bucket(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::TokenBucket, capacity, rate)
    }

    /// The same, by a script for each take.
    pub fn lazy_token_bucket(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::LazyTokenBucket, capacity, rate)
    }

    /// The same as one instant, by a script for each take.
    pub fn gcra(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::Gcra, capacity, rate).and_then(|limit| {
            check_gcra(limit.terms)?;
            Ok(limit)
        })
    }

    /// A bucket that holds `capacity` taken tokens and leaks at `rate`. Tells reservations when to proceed.
    pub fn leaky_bucket(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::LeakyBucket, capacity, rate)
    }

    /// A number of tokens within a window that begins with its first take: `100/min`.
    pub fn fixed_window(rule: &str) -> Self {
        Self::windowed(Algorithm::FixedWindow, &[rule], false)
    }

    /// A number of tokens within a window that begins at a multiple of its length.
    pub fn aligned_window(rule: &str) -> Self {
        Self::windowed(Algorithm::FixedWindow, &[rule], true)
    }

    /// Numbers of tokens within any time as long as their windows: `["10/s", "100/min"]`.
    pub fn sliding_window<'r>(rules: impl AsRef<[&'r str]>) -> Self {
        Self::windowed(Algorithm::SlidingWindow, rules.as_ref(), false)
    }

    /// About a number of tokens within any time as long as a window.
    pub fn sliding_counter(rule: &str) -> Self {
        Self::windowed(Algorithm::SlidingCounter, &[rule], false)
    }

    /// At most `limit` permits that are held at once, each good for `ttl` after a renewal: 500 ms to 1 h.
    pub fn concurrency(limit: u64, ttl: Duration) -> Self {
        let limit = permits_at_once(limit).map_err(text).and_then(|capacity| {
            let supply = Supply::Permits(PermitTtl::new(ttl).map_err(text)?);
            Ok(unnamed(Algorithm::Concurrency, capacity, supply))
        });
        Self(limit)
    }

    /// With a bucket for each key.
    pub fn keyed(self) -> Self {
        self.with(|limit| limit.keyed = true)
    }

    /// The effect of a change of the capacity on the tokens in a bucket.
    pub fn on_change(self, on_change: OnChange) -> Self {
        self.with(|limit| limit.on_change = on_change)
    }

    /// Clients take up to `max` tokens ahead, and keep them for `ttl` at most: 10 ms to 60 s. For token buckets with a
    /// rate.
    pub fn lease(self, max: u64, ttl: Duration) -> Self {
        self.and_then(|mut limit| {
            let lease = Lease::new(max, ttl).map_err(text)?;
            if !is_rated_bucket(&limit) {
                return Err(
                    "only token buckets with a rate are leased: remove the lease, or use token_bucket"
                        .to_owned(),
                );
            }
            lease.check_size(limit.terms.capacity).map_err(text)?;
            limit.lease = Some(lease);
            Ok(limit)
        })
    }

    /// With charges that may leave a debt of up to `tokens`. For limits with a rate.
    pub fn max_debt(self, tokens: u64) -> Self {
        self.and_then(|mut limit| {
            limit.holds = Holds::new(tokens, OnAbandon::Charge, Holds::DEFAULT_TTL).map_err(text)?;
            match limit.terms.supply {
                Supply::Rate(_) if limit.catch_up && limit.parts.is_empty() => Ok(limit),
                _ => Err("only time repays debt, at a rate and without parts: remove max_debt, or use \
                          token_bucket"
                    .to_owned()),
            }
        })
    }

    /// Whether denials hold.
    pub fn mode(self, mode: Mode) -> Self {
        self.with(|limit| limit.rollout.mode = mode)
    }

    /// The share of keys for which denials hold, in percent. For keyed limits.
    pub fn enforce_percent(self, percent: u64) -> Self {
        self.and_then(|mut limit| {
            limit.rollout.enforced = Percent::new(percent).map_err(text)?;
            Ok(limit)
        })
    }

    /// The outage policy.
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        self.with(|limit| limit.on_outage = Some(on_outage))
    }

    /// The limit `name` with these terms.
    ///
    /// # Errors
    /// The first mistake in the terms, for people. Terms that only tests have are a mistake here.
    pub fn limit(&self, name: LimitName) -> Result<Limit, String> {
        let limit = self.named(name)?;
        let is_definable = limit.catch_up && limit.parts.is_empty() && limit.schedule.is_empty();
        match limit.terms.supply {
            Supply::Rate(_) | Supply::Windows(_) | Supply::Permits(_) if is_definable => Ok(limit),
            _ => Err("code defines no parts, quotas, schedules and limits without catch-up: write a config"
                .to_owned()),
        }
    }

    /// The limit `name`, also with terms that only tests have.
    pub(super) fn named(&self, name: LimitName) -> Result<Limit, String> {
        let limit = Limit { name, ..self.0.clone()? };
        if limit.rollout.enforced != Percent::default() && !limit.keyed {
            return Err(
                "a limit with one bucket has no keys to choose from: remove enforce_percent, or add keyed()"
                    .to_owned(),
            );
        }
        Ok(limit)
    }

    pub(super) fn rated(algorithm: Algorithm, capacity: u64, rate: &str) -> Self {
        let rate = rate.parse::<Rate>().map_err(text);
        Self(rate.and_then(|rate| {
            let capacity = Capacity::new(capacity).map_err(text)?;
            Ok(unnamed(algorithm, capacity, Supply::Rate(rate)))
        }))
    }

    fn windowed(algorithm: Algorithm, rules: &[&str], aligned: bool) -> Self {
        let windows = Windows::written(rules, aligned);
        Self(windows.map(|windows| unnamed(algorithm, windows.capacity(), Supply::Windows(windows))))
    }

    fn with(self, set: impl FnOnce(&mut Limit)) -> Self {
        self.and_then(|mut limit| {
            set(&mut limit);
            Ok(limit)
        })
    }

    pub(super) fn and_then(self, next: impl FnOnce(Limit) -> Result<Limit, String>) -> Self {
        Self(self.0.and_then(next))
    }
}

/// A limit with one bucket, and without a name yet.
pub(super) fn unnamed(algorithm: Algorithm, capacity: Capacity, supply: Supply) -> Limit {
    Limit { keyed: false, ..Limit::plain(LimitName::NONE, algorithm, Terms { capacity, supply }) }
}

pub(super) fn is_rated_bucket(limit: &Limit) -> bool {
    limit.algorithm == Algorithm::TokenBucket && matches!(limit.terms.supply, Supply::Rate(_))
}

/// GCRA keeps one instant in µs of each bucket, so it bounds the rate and the time to fill.
pub(super) fn check_gcra(terms: Terms) -> Result<(), String> {
    match terms.supply.pace().can_rest(terms.capacity.get()) {
        true => Ok(()),
        false => Err(format!("{GCRA_BOUNDS}: write less, or use lazy_token_bucket")),
    }
}

pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_terms_say_what_a_wrong_config_says() {
        let second = Duration::from_secs(1);
        for (terms, problem) in [
            (CodeTerms::token_bucket(0, "1/s"), "a capacity is a whole number of tokens from 1"),
            (
                CodeTerms::token_bucket(1, "0.5/s"),
                "write whole tokens over a longer interval, such as \"1/2s\"",
            ),
            (CodeTerms::lazy_token_bucket(1, "often"), "is not a rate: write tokens/interval"),
            (CodeTerms::gcra(10, "2000000/s"), "gcra counts at most 1000000 tokens a second"),
            (CodeTerms::fixed_window("0/s"), "a rate gives 1 to"),
            (CodeTerms::sliding_window(["1/s", "2/s"]), "two rules have the same window"),
            (CodeTerms::sliding_window([]), "a limit has 1 to 8 rules, not 0"),
            (CodeTerms::concurrency(0, second), "a limit is of 1 to 10000 permits, not 0"),
            (CodeTerms::concurrency(1, Duration::ZERO), "a permit is good for 500ms to 1h"),
            (
                CodeTerms::token_bucket(5, "1/s").lease(6, second),
                "the bucket holds 5 tokens at most: write max = 5",
            ),
            (CodeTerms::token_bucket(5, "1/s").lease(5, 70 * second), "a lease lasts 10ms to 1min"),
            (CodeTerms::gcra(5, "1/s").lease(5, second), "only token buckets with a rate are leased"),
            (CodeTerms::fixed_window("5/s").max_debt(5), "only time repays debt"),
            (CodeTerms::token_bucket(5, "1/s").enforce_percent(5), "has no keys to choose from"),
            (CodeTerms::token_bucket(5, "1/s").keyed().enforce_percent(101), "0 to 100"),
        ] {
            let error = terms.limit("api".parse().unwrap()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
