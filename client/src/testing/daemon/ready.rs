//! Results of commands that end at once.

use futures_util::FutureExt;
use redis::{ErrorKind, RedisError, RedisResult};

/// The result of a command that ends at once.
pub(super) fn ready<T>(command: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let unready = || RedisError::from((ErrorKind::Client, "a command of the Redis in memory has not ended"));
    command.now_or_never().unwrap_or_else(|| Err(unready()))
}
