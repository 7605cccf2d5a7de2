//! Errors of Redis, whose type in the crate `redis` stays out of the public interface.

use topup_wire::connection;

/// A failed connection to Redis, or an error reply of Redis. Its [`source`](std::error::Error::source) has the details.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RedisError(#[source] pub(super) redis::RedisError);

// === impl RedisError ===

impl RedisError {
    /// Whether Redis was unreachable, busy or failing over, so that the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        connection::is_transient(&self.0)
    }

    pub(crate) const fn inner(&self) -> &redis::RedisError {
        &self.0
    }
}
