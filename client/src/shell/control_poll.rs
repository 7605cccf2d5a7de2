//! The control poll: asks Redis for its time, the generation and the daemons that are alive.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use topup_wire::{connection::Connection, reply::Polled, schema::NewerSchema, scripts};

use super::clock::Clock;
use crate::{
    error::Error,
    machine::{Micros, RedisTime},
    say::say,
    trial_metrics::TrialRegistry,
};

/// Time between two polls. Two polls fit into [`TRUST`], so that a slow one ends no trust.
const EVERY: Duration = Duration::from_millis(250);
/// Polls between two reports of trial metrics.
const REPORT_EVERY: u32 = 2;
/// A worker trusts its knowledge for this long after the sending of the last answered poll, in µs. A change of terms is
/// announced for longer (`FREEZE` in topup-wire), so that no worker takes by previous terms once it is made.
const TRUST: Micros = 700_000;
/// Redis is unreachable when the last answered poll is older, in µs.
const REACHABLE: Micros = 750_000;

/// Stands for the generation of an unreachable Redis. No real generation is as large.
const UNREACHABLE: u64 = u64::MAX;

/// The state told by control polls. All tasks of a worker read it, and one writes it.
#[derive(Debug, Default)]
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
    /// A server before Redis 7.0, which has no `PEXPIREAT … GT`.
    is_too_old: AtomicBool,
}

// === impl Control ===

impl Control {
    /// Counts the generations that this worker has seen. Knowledge from another epoch is out of date.
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

    /// Whether Redis has answered lately.
    pub(crate) fn is_reachable(&self) -> bool {
        self.generation.load(Relaxed) != UNREACHABLE
    }

    /// Has only scripts take from buckets at rest, until the connection breaks.
    pub(crate) fn forbid_takes_at_rest(&self) {
        self.is_too_old.store(true, Relaxed);
    }

    /// Records a poll that was sent at `sent` and answered at `received`.
    pub(crate) fn note(&self, polled: &Polled, sent: Micros, received: Micros) {
        self.note_schema(polled.newer_schema);
        // Generations begin at 1. A Redis without data has none.
        let generation = polled.generation.unwrap_or(0);
        if self.generation.swap(generation, Relaxed) != generation {
            self.epoch.fetch_add(1, Relaxed);
        }
        self.daemon_alive.store(polled.daemons > 0, Relaxed);
        self.redis_now.store(polled.now, Relaxed);
        self.store_time(self.stored_time().heard(polled.now, sent, received));
        self.trusted_until.store(sent.saturating_add(TRUST), Relaxed);
    }

    /// Records the schema in Redis. If that has become one that this version does not know, or the reverse, all limits are
    /// read again: a reader is refused, an ordinary take has nothing to compare.
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
    fn unanswered(&self, now: Micros) {
        if now > self.trusted_until().saturating_add(REACHABLE - TRUST) {
            self.forget();
        }
    }

    /// Ends all trust at once: Redis refused a poll, or the connection is broken.
    fn disconnected(&self) {
        self.trusted_until.store(0, Relaxed);
        self.forget();
        self.is_too_old.store(false, Relaxed);
    }

    fn forget(&self) {
        self.daemon_alive.store(false, Relaxed);
        self.generation.store(UNREACHABLE, Relaxed);
        self.store_time(RedisTime::default());
    }

    fn stored_time(&self) -> RedisTime {
        RedisTime::from(self.redis_time.each_ref().map(|part| part.load(Relaxed)))
    }

    fn store_time(&self, time: RedisTime) {
        for (part, value) in self.redis_time.iter().zip(time.parts()) {
            part.store(value, Relaxed);
        }
    }
}

/// Starts the polls, which end with the last client.
pub(crate) fn start(
    control: &Arc<Control>,
    connection: Connection,
    deadline: Duration,
    trials: Arc<TrialRegistry>,
    clock: Arc<Clock>,
) {
    tokio::spawn(run(Arc::downgrade(control), connection, deadline, trials, clock));
}

async fn run(
    control: Weak<Control>,
    mut connection: Connection,
    deadline: Duration,
    trials: Arc<TrialRegistry>,
    clock: Arc<Clock>,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut polls = 0_u32;
    loop {
        ticks.tick().await;
        let Some(control) = control.upgrade() else { return trials.report(&connection, deadline).await };
        clock.compare();
        let sent = clock.now();
        match tokio::time::timeout(deadline, scripts::poll(&mut connection)).await {
            Ok(Ok(polled)) => {
                control.note(&polled, sent, clock.now());
                polls = polls.wrapping_add(1);
                if polls.is_multiple_of(REPORT_EVERY) && polled.newer_schema.is_none() {
                    trials.report(&connection, deadline).await;
                }
            }
            Ok(Err(_)) => control.disconnected(),
            Err(_) => control.unanswered(clock.now()),
        }
    }
}
