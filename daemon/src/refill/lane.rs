//! The lane in which slices go to Redis.
//!
//! Redis works off all that one connection has sent before it turns to another: slices of many shards sent at once would
//! keep takes waiting for all of them. So a large slice goes alone, and small ones side by side.

use std::{future::Future, sync::Arc};

use tokio::sync::Semaphore;

/// Small slices under way at once. Each costs Redis less than 0.2 ms; more of them would only wait in Redis instead.
const ABREAST: u32 = 8;
/// Buckets that a small slice credits at most.
const SMALL: u64 = 15;

/// Places for slices, and a queue: who waits longest is next, so that no shard waits for all of another.
#[derive(Clone, Debug)]
pub(super) struct Lane(Arc<Semaphore>);

// === impl Lane ===

impl Lane {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(ABREAST as usize)))
    }

    /// What `slice` comes to, once it is its turn; about so many buckets are expected to be credited.
    pub(super) async fn pass<T>(&self, expected: u64, slice: impl Future<Output = T>) -> T {
        let width = if expected > SMALL { ABREAST } else { 1 };
        // Never closed, so never refused.
        let _turn = self.0.acquire_many(width).await;
        slice.await
    }
}
