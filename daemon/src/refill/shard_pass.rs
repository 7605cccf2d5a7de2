//! A pass over one shard: credits every bucket that is due, slice by slice.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    scripts::{self, Look},
};

use super::limiter::RefillLimiter;
use crate::publish::migrate_all;

/// A pass over one shard.
#[derive(Clone, Debug)]
pub(super) struct ShardPass {
    pub(super) keys: Arc<ShardKeys>,
    /// Whether the last pass found a counting bucket.
    pub(super) active: bool,
    /// Buckets credited by the last pass, as an estimate for this one.
    pub(super) expected: u64,
    /// Whether nothing is known of the buckets.
    pub(super) unknown: bool,
    pub(super) limiter: RefillLimiter,
    /// Counts credited buckets while the pass goes on.
    pub(super) credited: Arc<AtomicU64>,
    /// Set when the daemon stops: the slice in flight is the last.
    pub(super) stop: Arc<AtomicBool>,
}

/// The result of a pass over one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassSummary {
    /// Buckets credited.
    pub(super) credited: u64,
    /// The time in µs until the next counting bucket is due; `u64::MAX` if the shard has none. Measured by the clock of
    /// the shard's node, which may differ from the clock of the heartbeat's node.
    pub(super) next_due: u64,
}

// === impl ShardPass ===

impl ShardPass {
    /// Migrates buckets of an unknown shard first. Then credits slices until no bucket is due.
    pub(super) async fn run(self, connection: Connection) -> RedisResult<PassSummary> {
        let conn = &mut connection.clone();
        if self.unknown && self.limiter.question(scripts::is_migrating(conn, &self.keys)).await? {
            self.limiter.exclusive(migrate_all(&connection, &self.keys)).await?;
        }
        let mut summary = PassSummary { credited: 0, next_due: u64::MAX };
        if !self.active && !self.limiter.question(scripts::is_active(conn, &self.keys)).await? {
            return Ok(summary);
        }
        let mut look = if self.unknown { Look::All } else { Look::Due };
        let mut expected = self.expected;
        while !self.stop.load(Relaxed) {
            let refill = self.limiter.slice(expected, |size| scripts::refill(conn, &self.keys, size, look));
            let slice = refill.await?;
            summary.credited += slice.credited;
            self.credited.fetch_add(slice.credited, Relaxed);
            summary.next_due = slice.again.saturating_sub(slice.now);
            // A slice without a bucket makes no progress: its terms are corrupt, and healing mends them.
            if slice.again > slice.now || slice.credited == 0 {
                break;
            }
            if look == Look::All {
                look = Look::Rest(slice.now);
            }
            expected = slice.credited;
        }
        Ok(summary)
    }
}
