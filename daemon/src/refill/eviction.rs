//! Warns about a Redis that may evict the keys of limits.

use topup_wire::{connection::Connection, scripts};

/// Logs a warning if this Redis may evict keys. An evicted counter counts as an empty bucket, but an evicted due index
/// makes its buckets full.
pub(super) fn warn_of_eviction(mut connection: Connection) {
    tokio::spawn(async move {
        if let Ok(Some(policy)) = scripts::eviction_policy(&mut connection).await {
            tracing::warn!(
                "this Redis may evict keys (maxmemory-policy {policy}): set noeviction, or limits may be exceeded"
            );
        }
    });
}
