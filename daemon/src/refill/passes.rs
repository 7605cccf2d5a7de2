//! Passes over all shards: each at its own time, side by side, at most one in flight per shard.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::{Address, Connection},
    keyspace::ShardKeys,
    limit::LimitName,
};

use super::{
    in_flight::InFlight,
    limiter::RefillLimiter,
    log_throttle::LogThrottle,
    shard::Shard,
    shard_pass::{PassSummary, ShardPass},
};
use crate::metrics::Metrics;

/// The shards being refilled, and the passes over them.
pub(super) struct Passes {
    pub(super) tick: Duration,
    pub(super) shards: Vec<Shard>,
    in_flight: FuturesUnordered<InFlight<EndedPass>>,
    /// Shards without a pass since they were published.
    pub(super) unseen: usize,
    pub(super) lag_log: LogThrottle,
    /// Passes that were due earlier, in µs of Redis `TIME`, could not be on time: Redis was away, or its clock stepped.
    pub(super) excused: u64,
    pub(super) failure_log: LogThrottle,
    /// One per node of a cluster: load on one node does not hold up the others.
    limiters: HashMap<Option<Address>, RefillLimiter>,
    /// Buckets credited so far. Each slice adds its own, since a pass over many buckets may last.
    credited: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    pub(super) metrics: Metrics,
}

/// A pass over one shard that has ended.
pub(super) struct EndedPass {
    /// The keys of the shard. A pass over a shard that was replaced meanwhile is ignored when it ends.
    pub(super) keys: Arc<ShardKeys>,
    /// The place of the shard when the pass began.
    pub(super) index: usize,
    pub(super) began: u64,
    pub(super) result: RedisResult<PassSummary>,
}

// === impl Passes ===

impl Passes {
    pub(super) fn new(tick: Duration, metrics: Metrics) -> Self {
        Self {
            metrics,
            tick,
            shards: Vec::new(),
            in_flight: FuturesUnordered::new(),
            unseen: 0,
            lag_log: LogThrottle::default(),
            excused: 0,
            failure_log: LogThrottle::default(),
            limiters: HashMap::new(),
            credited: Arc::default(),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Refills these shards from now on, in place of all others.
    pub(super) fn replace(&mut self, shards: Vec<Shard>, tick: Duration) {
        self.unseen = shards.len();
        (self.shards, self.tick) = (shards, tick);
    }

    /// Refills these shards from now on, in place of all others of the limits `changed`.
    pub(super) fn change(&mut self, changed: &BTreeSet<LimitName>, shards: Vec<Shard>) {
        self.shards.retain(|shard| !changed.contains(&shard.limit));
        self.shards.extend(shards);
        self.unseen = self.shards.iter().filter(|shard| !shard.seen).count();
    }

    /// Ends the passes in flight after their present slice, and refills nothing until shards are replaced.
    pub(super) fn halt(&mut self) {
        mem::take(&mut self.stop).store(true, Relaxed);
        self.replace(Vec::new(), self.tick);
    }

    /// The number of shards.
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Buckets credited so far.
    pub(super) fn credited(&self) -> u64 {
        self.credited.load(Relaxed)
    }

    /// Whether a pass over each shard has ended since it was published.
    pub(super) fn all_seen(&self) -> bool {
        self.unseen == 0
    }

    /// Makes every shard due now and unknown: the step has left scores ahead of the clock.
    pub(super) fn clock_stepped_back(&mut self) {
        for shard in &mut self.shards {
            (shard.unknown, shard.next) = (true, 0);
        }
    }

    /// Measures no lag from before `now`, in µs of Redis `TIME`.
    pub(super) fn excuse(&mut self, now: u64) {
        self.excused = now;
    }

    /// Begins a pass over each shard that is due at `now`, in µs of Redis `TIME`. If Redis is not `up`, only the nodes
    /// of a cluster are asked: each of them may be up.
    pub(super) fn begin(&mut self, connection: &Connection, now: u64, up: bool) {
        for (index, shard) in self.shards.iter_mut().enumerate() {
            if shard.busy || shard.next > now {
                continue;
            }
            let node = connection.node_of(shard.keys.hash_slot);
            if node.is_none() && !up {
                continue;
            }
            // Another node has another clock.
            if shard.node != node {
                shard.unknown |= shard.node.is_some();
                shard.node.clone_from(&node);
            }
            shard.busy = true;
            let pass = ShardPass {
                keys: shard.keys.clone(),
                active: shard.active,
                expected: shard.expected,
                unknown: mem::take(&mut shard.unknown),
                limiter: self
                    .limiters
                    .entry(node)
                    .or_insert_with(|| RefillLimiter::new(self.metrics.clone()))
                    .clone(),
                credited: self.credited.clone(),
                stop: self.stop.clone(),
            };
            let (keys, connection) = (shard.keys.clone(), connection.clone());
            self.in_flight.push(Box::pin(async move {
                EndedPass { keys, index, began: now, result: pass.run(connection).await }
            }));
        }
    }

    /// Waits for the next pass to end. `None` at once if there is none.
    pub(super) async fn next(&mut self) -> Option<EndedPass> {
        self.in_flight.next().await
    }

    /// Waits until the slices in flight have ended, and begins no other.
    pub(super) async fn drain(&mut self) {
        self.stop.store(true, Relaxed);
        while self.in_flight.next().await.is_some() {}
    }
}
