//! trypema 2.2: a sliding window of buckets, by a script in Redis or in memory with Redis told now and then.

use std::sync::Arc;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use topup_bench::limiter::{Decide, Load, connect};
use trypema::{
    RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize,
    hybrid::HybridRateLimiterProvider,
    redis::{RedisKey, RedisRateLimiterProvider},
};

pub(crate) struct Redis {
    provider: Arc<RedisRateLimiterProvider>,
    keys: Keys,
}

pub(crate) struct Hybrid {
    provider: Arc<HybridRateLimiterProvider>,
    keys: Keys,
}

struct Keys {
    keys: Vec<RedisKey>,
    rate: RateLimit,
}

/// A connection that is made anew when it breaks.
async fn manager(load: &Load) -> anyhow::Result<ConnectionManager> {
    let config = ConnectionManagerConfig::new().set_response_timeout(None);
    Ok(ConnectionManager::new_with_config(connect::client(load.redis())?, config).await?)
}

// === impl Keys ===

impl Keys {
    fn new(load: &Load) -> anyhow::Result<Self> {
        let keys = load
            .names()
            .kept()
            .iter()
            .map(|name| RedisKey::try_from(name.clone()))
            .collect::<Result<_, _>>()?;
        Ok(Self { keys, rate: RateLimit::per_second(load.per_second() as f64)? })
    }
}

// === impl Redis ===

impl Redis {
    pub(crate) async fn new(load: &Load) -> anyhow::Result<Self> {
        let builder = RedisRateLimiterProvider::builder(manager(load).await?);
        let provider = builder.window_size(WindowSize::seconds(1)?).build()?;
        Ok(Self { provider, keys: Keys::new(load)? })
    }
}

impl Decide for Redis {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let decision = self.provider.absolute().inc(&self.keys.keys[key], &self.keys.rate, 1).await?;
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}

// === impl Hybrid ===

impl Hybrid {
    pub(crate) async fn new(load: &Load) -> anyhow::Result<Self> {
        let builder = HybridRateLimiterProvider::builder(manager(load).await?);
        let provider = builder.window_size(WindowSize::seconds(1)?).build()?;
        Ok(Self { provider, keys: Keys::new(load)? })
    }
}

impl Decide for Hybrid {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let (limiter, name) = (self.provider.absolute(), &self.keys.keys[key]);
        let decision = match limiter.try_inc(name.as_key_ref(), 1)? {
            Some(decision) => decision,
            None => limiter.inc(name, &self.keys.rate, 1).await?,
        };
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}
