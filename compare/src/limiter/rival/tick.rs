//! Counters that a task tops up.

use futures_util::future::BoxFuture;
use redis::{Cmd, RedisResult, Script};

use super::{Common, Form};

/// DECR, and denied below 0: what is denied stays taken.
pub(super) struct Unclamped;

/// Taken by a script, if there is enough.
pub(super) struct Clamped(Script);

// === impl Unclamped ===

impl Form for Unclamped {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        Box::pin(async move {
            let left: i64 = Cmd::decr(&key, count).query_async(&mut common.connection()).await?;
            Ok(left >= 0)
        })
    }
}

// === impl Clamped ===

impl Clamped {
    pub(super) fn new() -> Self {
        Self(Script::new(include_str!("tick.lua")))
    }
}

impl Form for Clamped {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        Box::pin(async move { common.run(&self.0, key, &[count]).await })
    }
}
