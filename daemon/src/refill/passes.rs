//! Passes over all shards: each shard at its own time, none waiting for another, none more than one pass behind.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::RedisResult;
use topup_wire::connection::{Address, Connection};

use super::{
    lane::Lane,
    patience::{InFlight, LONGEST_TICK, NowAndThen},
    shard::{Done, Errand, Shard},
};

/// Looks at shards with nothing due, per tick: what many idle limits cost stays flat, each being looked at less often.
const IDLE_LOOKS: usize = 100;

/// The shards being refilled.
pub(super) struct Passes {
    tick: Duration,
    shards: Vec<Shard>,
    /// Tells passes over the shards as they are from passes over those of before.
    version: u64,
    in_flight: FuturesUnordered<InFlight<Ended>>,
    /// Shards not looked at since they were published.
    unseen: usize,
    behind: NowAndThen,
    failures: NowAndThen,
    /// One for each node of a cluster: what one of them is busy with is nothing to the others.
    lanes: HashMap<Option<Address>, Lane>,
    /// Buckets credited so far, by each slice as it ends: a pass over many may last.
    credited: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// A pass over one shard that has ended.
pub(super) struct Ended {
    version: u64,
    index: usize,
    began: u64,
    done: RedisResult<Done>,
}

// === impl Passes ===

impl Passes {
    pub(super) fn new(tick: Duration) -> Self {
        Self {
            tick,
            shards: Vec::new(),
            version: 0,
            in_flight: FuturesUnordered::new(),
            unseen: 0,
            behind: NowAndThen::default(),
            failures: NowAndThen::default(),
            lanes: HashMap::new(),
            credited: Arc::default(),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Refills these shards from now on.
    pub(super) fn replace(&mut self, shards: Vec<Shard>, tick: Duration) {
        self.version += 1;
        self.unseen = shards.len();
        (self.shards, self.tick) = (shards, tick);
    }

    /// How many shards there are.
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Buckets credited so far.
    pub(super) fn credited(&self) -> u64 {
        self.credited.load(Relaxed)
    }

    /// Whether each shard has been looked at since it was published.
    pub(super) fn all_seen(&self) -> bool {
        self.unseen == 0
    }

    /// Looks at every shard with the next tick, also for scores that a clock stepping back has left in the future.
    pub(super) fn clock_stepped_back(&mut self) {
        for shard in &mut self.shards {
            (shard.anew, shard.next) = (true, 0);
        }
    }

    /// Begins a pass over each shard whose time has come at `now`, in µs of Redis `TIME`. Where Redis is not `present`,
    /// only the nodes of a cluster are asked, each of which may be.
    pub(super) fn begin(&mut self, connection: &Connection, now: u64, present: bool) {
        for (index, shard) in self.shards.iter_mut().enumerate() {
            if shard.busy || shard.next > now {
                continue;
            }
            let node = connection.node_of(shard.keys.hash_slot);
            if node.is_none() && !present {
                continue;
            }
            // Another node has another clock.
            if shard.node != node {
                shard.anew |= shard.node.is_some();
                shard.node.clone_from(&node);
            }
            shard.busy = true;
            let errand = Errand {
                keys: shard.keys.clone(),
                active: shard.active,
                expected: shard.expected,
                anew: std::mem::take(&mut shard.anew),
                lane: self.lanes.entry(node).or_insert_with(Lane::new).clone(),
                credited: self.credited.clone(),
                stop: self.stop.clone(),
            };
            let (version, connection) = (self.version, connection.clone());
            let pass =
                async move { Ended { version, index, began: now, done: errand.run(connection).await } };
            self.in_flight.push(Box::pin(pass));
        }
    }

    /// The next pass to end; never ready while there is none.
    pub(super) async fn next(&mut self) -> Option<Ended> {
        self.in_flight.next().await
    }

    /// Takes note of a pass that ended at `now`, in µs of Redis `TIME`: how far behind its time it was.
    pub(super) fn ended(&mut self, ended: Ended, now: u64) -> Duration {
        let idle = self.tick.as_micros() as u64 * (self.shards.len() / IDLE_LOOKS) as u64;
        let Ended { version, index, began, done } = ended;
        let Some(shard) = self.shards.get_mut(index).filter(|_| version == self.version) else {
            return Duration::ZERO;
        };
        shard.busy = false;
        match done {
            Ok(done) => {
                // Its time having come, a shard waits for the next tick at most: what is above that is behind.
                let late = if shard.next == 0 { 0 } else { now.saturating_sub(shard.next) };
                let lag = Duration::from_micros(late).saturating_sub(self.tick.min(LONGEST_TICK));
                (shard.expected, shard.active) = (done.credited, done.due < u64::MAX);
                shard.next = shard.next_look(began, now, done, idle);
                if !std::mem::replace(&mut shard.seen, true) {
                    self.unseen -= 1;
                }
                self.say_lag(lag);
                lag
            }
            Err(error) => {
                // The others go on; this one is tried again in a while, as if it had never been looked at.
                if self.failures.is_news() {
                    tracing::warn!("refilling {} failed ({error}); trying again", shard.keys.due);
                }
                shard.anew = true;
                shard.next = now + self.tick.max(LONGEST_TICK).as_micros() as u64;
                Duration::ZERO
            }
        }
    }

    /// Ends the slices at hand, and no more.
    pub(super) async fn drain(&mut self) {
        self.stop.store(true, Relaxed);
        while self.in_flight.next().await.is_some() {}
    }

    fn say_lag(&mut self, lag: Duration) {
        if lag > self.tick && self.behind.is_news() {
            let tick = self.tick;
            tracing::warn!(
                "refilling is {lag:?} behind its tick of {tick:?}: Redis or this machine is overloaded"
            );
        }
    }
}
