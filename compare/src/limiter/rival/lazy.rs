//! A token bucket in a hash, refilled by whoever takes.

use futures_util::future::BoxFuture;
use redis::{RedisResult, Script};

use super::{Common, Form};

/// By Redis's clock.
pub(super) struct Lua(Script);

/// By the clock of whoever asks.
pub(super) struct WorkerClock(Script);

// === impl Lua ===

impl Lua {
    pub(super) fn new() -> Self {
        Self(Script::new(include_str!("lazy.lua")))
    }
}

impl Form for Lua {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        let rule = common.rule;
        Box::pin(
            async move { common.run(&self.0, key, &[rule.capacity, rule.tokens, rule.micros, count]).await },
        )
    }
}

// === impl WorkerClock ===

impl WorkerClock {
    pub(super) fn new() -> Self {
        Self(Script::new(include_str!("lazy_worker_clock.lua")))
    }
}

impl Form for WorkerClock {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        let (rule, now) = (common.rule, common.worker_clock());
        Box::pin(async move {
            common.run(&self.0, key, &[rule.capacity, rule.tokens, rule.micros, count, now]).await
        })
    }
}
