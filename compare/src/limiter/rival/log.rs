//! A sorted set of the instants of all requests in the last window.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::future::BoxFuture;
use redis::{Pipeline, RedisResult};

use super::{Common, Form};

/// In one pipeline: what is denied has been entered by then, and counts.
#[derive(Default)]
pub(super) struct Pipelined {
    sequence: AtomicU64,
}

// === impl Pipelined ===

impl Form for Pipelined {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        Box::pin(async move {
            let (now, window) = (common.worker_clock(), common.rule.window());
            let mut pipeline = Pipeline::new();
            pipeline.atomic().zrembyscore(&key, 0, now.saturating_sub(window)).ignore();
            for _ in 0..count {
                // Members are unique, or two of one instant would count as one.
                let sequence = self.sequence.fetch_add(1, Relaxed);
                pipeline.zadd(&key, format!("{now}-{}-{sequence}", common.worker), now).ignore();
            }
            let expiry = i64::try_from(common.window_ms()).unwrap_or(i64::MAX);
            pipeline.zcard(&key).pexpire(&key, expiry).ignore();
            let (entries,): (u64,) = pipeline.query_async(&mut common.connection()).await?;
            Ok(entries <= common.rule.capacity)
        })
    }
}
