//! One shard's share of a pass.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    bucket::Record,
    connection::{Address, Connection},
    keyspace::ShardKeys,
    limit::{Limit, Supply},
    scripts::{self, Look},
};

use super::{lane::Lane, passes::LOOK_EVERY};
use crate::publish::carry_all;

/// One shard of a published token bucket, and when to look at it next.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Arc<ShardKeys>,
    /// How soon, in µs, a bucket that stops being full can be due.
    pub(crate) period: u64,
    /// Whether there was a bucket when it was looked at last.
    pub(crate) active: bool,
    /// Buckets credited by the last pass.
    pub(crate) expected: u64,
    /// When to look at it next, in µs of Redis `TIME`.
    pub(crate) next: u64,
    /// Looked at since it was published.
    pub(crate) seen: bool,
    /// Being refilled now; a shard is never more than one pass behind.
    pub(crate) busy: bool,
    /// Nothing is known of its buckets: some may have to be carried over a change, or be ahead of the clock.
    pub(crate) anew: bool,
    /// The node of a cluster that had it last.
    pub(crate) node: Option<Address>,
}

/// What a pass over one shard came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Buckets credited.
    pub(crate) credited: u64,
    /// In how many µs the next of the buckets there are is due; those that stop being full come on top. By the clock of
    /// the node that has them, which may be another one than the heartbeat's.
    pub(crate) due: u64,
}

/// What to do in a pass over one shard.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) keys: Arc<ShardKeys>,
    pub(crate) active: bool,
    /// Buckets credited by the last pass: as many may be due now.
    pub(crate) expected: u64,
    pub(crate) anew: bool,
    /// Where slices queue.
    pub(crate) lane: Lane,
    /// Counts the buckets that are credited.
    pub(crate) credited: Arc<AtomicU64>,
    /// Set when the daemon stops: the slice at hand is the last.
    pub(crate) stop: Arc<AtomicBool>,
}

// === impl Shard ===

impl Shard {
    /// The shards of `limit` that a daemon refills: none when the limit needs no daemon.
    pub(crate) fn of(limit: &Limit) -> Vec<Self> {
        if limit.algorithm.is_scripted() {
            return Vec::new();
        }
        let period = match limit.terms.supply {
            Supply::Rate(_) => Record::new(limit, 0).period(),
            // Of a quota it is known when they are.
            Supply::Period(_) | Supply::Windows(_) => LOOK_EVERY,
        };
        let shard = |number| Self {
            keys: Arc::new(ShardKeys::new(&limit.name, number)),
            period,
            active: false,
            expected: 0,
            next: 0,
            seen: false,
            busy: false,
            anew: true,
            node: None,
        };
        (0..limit.shards.get()).map(shard).collect()
    }
}

// === impl Errand ===

impl Errand {
    /// Credits every bucket of the shard that is due, slice by slice.
    pub(crate) async fn run(self, connection: Connection) -> RedisResult<Done> {
        let conn = &mut connection.clone();
        if self.anew && self.lane.look(scripts::is_carrying(conn, &self.keys)).await? {
            self.lane.alone(carry_all(&connection, &self.keys)).await?;
        }
        let mut done = Done { credited: 0, due: u64::MAX };
        if !self.active && !self.lane.look(scripts::is_active(conn, &self.keys)).await? {
            return Ok(done);
        }
        let mut look = if self.anew { Look::All } else { Look::Due };
        let mut expected = self.expected;
        while !self.stop.load(Relaxed) {
            let slice =
                self.lane.slice(expected, |most| scripts::refill(conn, &self.keys, most, look)).await?;
            done.credited += slice.credited;
            self.credited.fetch_add(slice.credited, Relaxed);
            done.due = slice.again.saturating_sub(slice.now);
            if slice.again > slice.now {
                break;
            }
            if look == Look::All {
                look = Look::Rest(slice.now);
            }
            expected = slice.credited;
        }
        Ok(done)
    }
}
