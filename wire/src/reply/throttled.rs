//! The reply to a throttle.

use redis::{FromRedisValue, ParsingError, Value};

use super::numbers::{count, numbers};

/// The reply of `CL.THROTTLE`, and of `throttle.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled {
    /// Whether the call is over the limit. Such a call does not count.
    pub limited: bool,
    /// The most at once: `max_burst` + 1.
    pub limit: u64,
    /// The quantity that a call could have now.
    pub remaining: u64,
    /// Whole seconds until the same call would be allowed; `None` if it was, or never would be.
    pub retry_after: Option<u64>,
    /// Whole seconds until a call could have all of `limit`.
    pub reset_after: u64,
}

// === impl Throttled ===

impl FromRedisValue for Throttled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [limited, limit, remaining, retry_after, reset_after] = numbers(value)?;
        // Calls under other terms may have gone beyond the present limit.
        let [remaining, reset_after] = [remaining.max(0), reset_after.max(0)];
        let retry_after = if retry_after < 0 { None } else { Some(count(retry_after)?) };
        let [limit, remaining, reset_after] = [count(limit)?, count(remaining)?, count(reset_after)?];
        Ok(Self { limited: limited != 0, limit, remaining, retry_after, reset_after })
    }
}
