//! The terms of a limit in short: a capacity and a rate.

use std::time::Duration;

use topup_wire::limit::{Algorithm, Capacity, Limit, LimitName, Rate, Supply, Terms};

use super::alone::text;
use crate::plan::SECOND;

/// A capacity, and tokens a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) capacity: u64,
    pub(crate) rate: u64,
}

// === impl Rule ===

impl Rule {
    pub(crate) const fn new(capacity: u64, rate: u64) -> Self {
        Self { capacity, rate }
    }

    /// A keyed token bucket of this rule.
    pub(crate) fn limit(self, name: LimitName) -> Result<Limit, String> {
        let rate = Rate::new(self.rate, Duration::from_secs(1)).map_err(text)?;
        let terms =
            Terms { capacity: Capacity::new(self.capacity).map_err(text)?, supply: Supply::Rate(rate) };
        Ok(Limit::plain(name, Algorithm::TokenBucket, terms))
    }

    /// µs in which so many tokens come.
    pub(crate) const fn time_of(self, tokens: u64) -> u64 {
        (tokens * SECOND).div_ceil(self.rate)
    }
}
