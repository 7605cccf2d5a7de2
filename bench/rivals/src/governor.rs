//! governor 0.10, GCRA in memory: the cost of a decision without a server.

use std::num::NonZeroU32;

use anyhow::Context;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use topup_bench::limiter::{Decide, Load};

#[derive(Debug)]
pub(crate) struct Governor(DefaultKeyedRateLimiter<usize>);

// === impl Governor ===

impl Governor {
    pub(crate) fn new(load: &Load) -> anyhow::Result<Self> {
        let number = |tokens: u64| u32::try_from(tokens).ok().and_then(NonZeroU32::new);
        let (burst, rate) = (number(load.capacity()), number(load.per_second()));
        let quota = Quota::per_second(rate.context("a rate that governor cannot say")?);
        let quota = quota.allow_burst(burst.context("a capacity that governor cannot say")?);
        Ok(Self(RateLimiter::keyed(quota)))
    }
}

impl Decide for Governor {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        Ok(self.0.check_key(&key).is_ok())
    }
}
