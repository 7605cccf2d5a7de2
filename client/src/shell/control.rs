//! The time of Redis, the generation and the daemons that are alive, as control polls tell them.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use topup_wire::{connection::Connection, reply, schema::NewerSchema, scripts};

use super::{Limits, clock::Clock};
use crate::{
    error::Error,
    machine::{Micros, RedisTime},
    say::say,
};

/// A worker trusts its knowledge for this long after the sending of the last answered poll, in µs. A change of terms is
/// announced for longer (`FREEZE` in topup-wire), so that no worker takes by previous terms once it is made.
const TRUST: Micros = 700_000;
/// Redis is unreachable when the last answered poll is older, in µs.
const REACHABLE: Micros = 750_000;

/// Stands for the generation of an unreachable Redis. No real generation is as large.
const UNREACHABLE: u64 = u64::MAX;

/// The state told by control polls. All tasks of a worker read it, and one writes it.
#[derive(Debug)]
pub(crate) struct Control {
    generation: AtomicU64,
    epoch: AtomicU64,
    daemon_alive: AtomicBool,
    /// The schema in Redis, if this version does not know it; else 0.
    newer_schema: AtomicU64,
    trusted_until: AtomicU64,
    redis_now: AtomicU64,
    /// The parts of a [`RedisTime`]. Each is right by itself.
    redis_time: [AtomicU64; 3],
    /// A server without `PEXPIREAT … GT`, or one that refuses it.
    is_too_old: AtomicBool,
    /// Whether any limit may be decided by a local bucket.
    uses_local: AtomicBool,
    /// Workers alive at the last two reports, of those that may decide by themselves.
    workers: [AtomicU64; 2],
}

// === impl Control ===

impl Default for Control {
    /// Before the first poll, Redis is unreachable.
    fn default() -> Self {
        Self {
            generation: AtomicU64::new(UNREACHABLE),
            epoch: AtomicU64::default(),
            daemon_alive: AtomicBool::default(),
            newer_schema: AtomicU64::default(),
            trusted_until: AtomicU64::default(),
            redis_now: AtomicU64::default(),
            redis_time: Default::default(),
            is_too_old: AtomicBool::default(),
            uses_local: AtomicBool::default(),
            workers: Default::default(),
        }
    }
}

impl Control {
    /// Counts the generations that this worker has seen. Knowledge from another epoch is out of date.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Whether a daemon refills counting buckets.
    pub(crate) fn daemon_alive(&self) -> bool {
        self.daemon_alive.load(Relaxed)
    }

    /// End of the trust in what the worker knows.
    pub(crate) fn trusted_until(&self) -> Micros {
        self.trusted_until.load(Relaxed)
    }

    /// Redis `TIME` at the last poll, in µs.
    pub(crate) fn redis_now(&self) -> u64 {
        self.redis_now.load(Relaxed)
    }

    /// The worker's knowledge of Redis `TIME`: none on a server that cannot keep buckets at rest as numbers.
    pub(crate) fn redis_time(&self) -> RedisTime {
        if self.is_too_old.load(Relaxed) { RedisTime::default() } else { self.stored_time() }
    }

    /// The schema in Redis, if this version does not know it.
    #[inline]
    pub(crate) fn newer_schema(&self) -> Option<NewerSchema> {
        NewerSchema::of(self.newer_schema.load(Relaxed))
    }

    /// Refuses where Redis has a schema that this version does not know.
    pub(crate) fn check_schema(&self) -> Result<(), Error> {
        self.newer_schema().map_or(Ok(()), |newer| Err(Error::NewerSchema(newer)))
    }

    /// Has polls count workers from now on.
    pub(crate) fn use_local(&self) {
        self.uses_local.store(true, Relaxed);
    }

    /// Whether any limit may be decided by a local bucket.
    pub(crate) fn uses_local(&self) -> bool {
        self.uses_local.load(Relaxed)
    }

    /// Workers alive, as last heard: the larger of two counts, since a Redis that has lost its data counts anew. `None`
    /// before the first count.
    pub(crate) fn workers(&self) -> Option<u64> {
        self.workers.iter().map(|count| count.load(Relaxed)).max().filter(|count| *count > 0)
    }

    pub(super) fn note_workers(&self, count: u64) {
        let [last, before] = &self.workers;
        before.store(last.swap(count, Relaxed), Relaxed);
    }

    /// Has only scripts take from buckets at rest, until the connection breaks.
    pub(crate) fn forbid_takes_at_rest(&self) {
        self.is_too_old.store(true, Relaxed);
    }

    /// Learns which limits have changed since the last poll, so that all others stay known. If that cannot be told,
    /// [`note`](Self::note) has all limits read again.
    pub(crate) async fn catch_up(
        &self,
        polled: &reply::Polled,
        connection: &mut Connection,
        (clock, deadline): (&Clock, Duration),
        limits: &Limits,
    ) {
        let known = self.generation.load(Relaxed);
        // No generation is 0, and that of an unreachable Redis is above all others.
        let Some(now) = polled.generation.filter(|now| known > 0 && *now > known) else { return };
        let changed = clock.timeout(deadline, scripts::changed_limits(connection, known, now)).await;
        if let Ok(Ok(Some(names))) = changed {
            limits.note_changes(&names);
            self.generation.store(now, Relaxed);
        }
    }

    /// Records a poll that was sent at `sent` and answered at `received`.
    pub(crate) fn note(&self, polled: &reply::Polled, sent: Micros, received: Micros) {
        self.note_schema(polled.newer_schema);
        // Generations begin at 1. A Redis without data has none.
        let generation = polled.generation.unwrap_or(0);
        if self.generation.swap(generation, Relaxed) != generation {
            self.epoch.fetch_add(1, Relaxed);
        }
        self.daemon_alive.store(polled.daemons > 0, Relaxed);
        if !polled.extends {
            self.forbid_takes_at_rest();
        }
        self.redis_now.store(polled.now, Relaxed);
        self.store_time(self.stored_time().heard(polled.now, sent, received));
        self.trusted_until.store(sent.saturating_add(TRUST), Relaxed);
    }

    /// Records the schema in Redis. If this version has ceased to know it, or knows it again, all limits are read anew. Only
    /// a reader compares schemas, an ordinary take does not.
    fn note_schema(&self, newer: Option<NewerSchema>) {
        let number = newer.map_or(0, NewerSchema::number);
        if self.newer_schema.swap(number, Relaxed) == number {
            return;
        }
        self.epoch.fetch_add(1, Relaxed);
        match newer {
            Some(newer) => say(&format!(
                "{newer}: no limit is decided, and the outage policy decides; upgrade this worker"
            )),
            None => say("the schema of the keys in Redis is known again: limits are decided"),
        }
    }

    /// Records a poll without an answer. After [`REACHABLE`], the next answer counts as that of another Redis.
    pub(super) fn unanswered(&self, now: Micros) {
        if now > self.trusted_until().saturating_add(REACHABLE - TRUST) {
            self.forget();
        }
    }

    /// Ends all trust at once: Redis refused a poll, or the connection is broken.
    pub(super) fn disconnected(&self) {
        self.trusted_until.store(0, Relaxed);
        self.forget();
        self.is_too_old.store(false, Relaxed);
    }

    fn forget(&self) {
        self.daemon_alive.store(false, Relaxed);
        self.generation.store(UNREACHABLE, Relaxed);
        self.store_time(RedisTime::default());
    }

    /// The worker's knowledge of Redis `TIME`, on any server.
    pub(crate) fn stored_time(&self) -> RedisTime {
        RedisTime::from(self.redis_time.each_ref().map(|part| part.load(Relaxed)))
    }

    fn store_time(&self, time: RedisTime) {
        for (part, value) in self.redis_time.iter().zip(time.parts()) {
            part.store(value, Relaxed);
        }
    }
}
