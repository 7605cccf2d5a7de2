//! Terms that only tests of code have: a config writes them, and no program defines them.

use std::time::Duration;

use super::{
    Algorithm, Capacity, CodeTerms, Limit, LimitName, Parts, Period, Rate, Schedule, ScheduledChange, Supply,
    Terms,
    code_terms::{check_gcra, is_rated_bucket, text, unnamed},
};
use crate::constants::MOST_CHANGES;

// === impl CodeTerms ===

impl CodeTerms {
    /// Tokens that are divided by weight among keys, each of which borrows what others leave: `[("acme", 3), ("*", 1)]`.
    /// `*` is all keys without a weight of their own. Keyed. For tests.
    pub fn fair_shares<'p>(
        capacity: u64,
        rate: &str,
        weights: impl IntoIterator<Item = (&'p str, u64)>,
    ) -> Self {
        let parts = Parts::new(weights.into_iter().map(|(name, weight)| (name.to_owned(), weight)));
        Self::rated(Algorithm::FairShares, capacity, rate).and_then(|limit| {
            let Terms { capacity, supply } = limit.terms;
            let parts = parts.map_err(text)?;
            parts.under(capacity, supply.pace()).map_err(text)?;
            Ok(Limit { keyed: true, parts, ..limit })
        })
    }

    /// A token bucket that is filled to `capacity` at the start of the test, and again after each `every`. For tests.
    pub fn quota(capacity: u64, every: Duration) -> Self {
        let limit = || match u64::try_from(every.as_micros()) {
            Ok(next) if next >= 1_000 => {
                let capacity = Capacity::new(capacity).map_err(text)?;
                Ok(unnamed(Algorithm::TokenBucket, capacity, Supply::Period(Period { since: 0, next })))
            }
            _ => Err(format!("a quota is filled every 1ms or more, not every {every:?}")),
        };
        Self(limit())
    }

    /// As `catch_up = false`: tokens come with ticks alone, of the daemon. For token buckets with a rate, in tests.
    pub fn without_catch_up(self, tick: Duration) -> Self {
        self.and_then(|limit| {
            if tick < Duration::from_millis(1) {
                return Err(format!("a tick lasts 1ms or more, not {tick:?}"));
            }
            if !is_rated_bucket(&limit) || limit.holds.max_debt() > 0 || !limit.schedule.is_empty() {
                return Err(
                    "only a token bucket with a rate, and without max_debt or a schedule, is without \
                            catch-up: remove without_catch_up"
                        .to_owned(),
                );
            }
            Ok(Limit { catch_up: false, tick, ..limit })
        })
    }

    /// Other terms from the time `after` the start of the test on. For limits with a rate, in tests. Changes come in the
    /// order of their times, six of them at most.
    pub fn scheduled(self, after: Duration, capacity: u64, rate: &str) -> Self {
        self.and_then(|limit| {
            let at = u64::try_from(after.as_micros()).map_err(text)?;
            let (capacity, rate) =
                (Capacity::new(capacity).map_err(text)?, rate.parse::<Rate>().map_err(text)?);
            if !matches!(limit.terms.supply, Supply::Rate(_)) || !limit.catch_up || !limit.parts.is_empty() {
                return Err("only a limit with a rate and catch-up, and without parts, has a schedule here"
                    .to_owned());
            }
            if limit.algorithm == Algorithm::Gcra {
                check_gcra(Terms { capacity, supply: Supply::Rate(rate) })?;
            }
            let mut changes: Vec<ScheduledChange> = limit.schedule.changes().collect();
            if changes.last().map_or(0, |last| last.at) >= at || changes.len() >= MOST_CHANGES as usize {
                return Err(format!(
                    "a schedule has {MOST_CHANGES} changes at most, each later than the one before"
                ));
            }
            changes.push(ScheduledChange { at, capacity, rate });
            Ok(Limit { schedule: Schedule::new(changes), ..limit })
        })
    }

    /// The limit `name` of a test. The instants of its schedule, and the end of its quota's first period, are in µs
    /// from the start of the test.
    ///
    /// # Errors
    /// The first mistake in the terms, for people.
    pub fn test_limit(&self, name: LimitName) -> Result<Limit, String> {
        self.named(name)
    }
}
