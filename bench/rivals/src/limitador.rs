//! limitador 0.14: a fixed window, in Redis or in memory with writes behind.

use std::collections::HashMap;

use limitador::{
    AsyncRateLimiter,
    limit::{Context, Limit, Namespace},
    storage::redis::{AsyncRedisStorage, CachedRedisStorageBuilder},
};

use topup_bench::limiter::{Decide, Load, Names};

/// With its default of 10,000 it stops answering once 10,000 keys are known.
const CACHED_COUNTERS: usize = 1_000_000;

pub(crate) struct Limitador {
    limiter: AsyncRateLimiter,
    namespace: Namespace,
    names: Names,
}

// === impl Limitador ===

impl Limitador {
    pub(crate) async fn redis(load: &Load) -> anyhow::Result<Self> {
        let storage = AsyncRedisStorage::new(load.redis()).await?;
        Self::new(AsyncRateLimiter::new_with_storage(Box::new(storage)), load)
    }

    pub(crate) async fn cached(load: &Load) -> anyhow::Result<Self> {
        let builder = CachedRedisStorageBuilder::new(load.redis()).max_cached_counters(CACHED_COUNTERS);
        Self::new(AsyncRateLimiter::new_with_storage(Box::new(builder.build().await?)), load)
    }

    fn new(limiter: AsyncRateLimiter, load: &Load) -> anyhow::Result<Self> {
        // The most in a window of a second.
        let limit = Limit::new("bench", load.per_second(), 1, vec![], vec!["key".try_into()?]);
        limiter.add_limit(limit);
        Ok(Self { limiter, namespace: "bench".into(), names: load.names() })
    }
}

impl Decide for Limitador {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let values = HashMap::from([("key".to_owned(), self.names.of(key).into_owned())]);
        let context = Context::from(values);
        let asked = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        // Its errors cannot be sent between threads; their words can.
        let result = asked.await.map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(!result.limited)
    }
}
