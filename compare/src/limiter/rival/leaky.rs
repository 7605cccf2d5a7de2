//! A leaky bucket: a level that falls at the rate, and to which each request adds.

use futures_util::future::BoxFuture;
use redis::{Cmd, RedisResult};

use super::{Common, Form};

/// The level and the instant of the last request under two keys, read and then written; what has leaked is rounded down.
pub(super) struct TwoKeys;

// === impl TwoKeys ===

impl Form for TwoKeys {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        Box::pin(async move {
            let (level_key, last_key) = (format!("{key}:level"), format!("{key}:last"));
            let (connection, rule) = (&mut common.connection(), common.rule);
            let now = common.worker_clock() / 1_000;
            let level: Option<u64> = Cmd::get(&level_key).query_async(connection).await?;
            let last: Option<u64> = Cmd::get(&last_key).query_async(connection).await?;
            let elapsed = now.saturating_sub(last.unwrap_or(now));
            let leaked = (elapsed as f64 * 1e3 * rule.tokens as f64 / rule.micros as f64) as u64;
            let level = level.unwrap_or(0).saturating_sub(leaked);
            let allowed = level + count <= rule.capacity;
            let level = if allowed { level + count } else { level };
            let expiry = (rule.window() / 1_000_000 + 1) * 2;
            Cmd::set_ex(&level_key, level, expiry).exec_async(connection).await?;
            Cmd::set_ex(&last_key, now, expiry).exec_async(connection).await?;
            Ok(allowed)
        })
    }
}
