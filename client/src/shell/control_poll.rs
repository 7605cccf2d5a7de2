//! The control poll: is a daemon alive, has anything been published, and does the worker's clock keep step?

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use topup_wire::{connection::Connection, reply::Polled, scripts};

use super::clock::Clock;
use crate::{
    machine::{Micros, RedisTime},
    tally::Tallies,
};

/// Time between two polls: two of them fit into the trust in one, so that a slow one costs nothing.
const EVERY: Duration = Duration::from_millis(250);
/// Every so many polls, tallies are told.
const TELLS_EVERY: u32 = 2;
/// What is known is trusted for so long after the sending of the last poll that was answered, in µs. A change of terms
/// is announced for longer than that (`FREEZE` in topup-wire), so that nobody takes by former terms once it is made.
const TRUST: Micros = 700_000;
/// A poll older than that says that Redis is out of sight, in µs.
const IN_SIGHT: Micros = 750_000;

/// What stands for a generation when Redis did not answer: none ever gets there.
const OUT_OF_SIGHT: u64 = u64::MAX;

/// What the last poll told. Shared by all tasks of a worker, written by one.
#[derive(Debug, Default)]
pub(crate) struct Control {
    generation: AtomicU64,
    /// Moves when anything published changes, or is published again after a flush.
    epoch: AtomicU64,
    daemon_alive: AtomicBool,
    trusted_until: AtomicU64,
    /// The instant of Redis at the last poll, in µs.
    redis_now: AtomicU64,
    /// By how much Redis `TIME` is ahead of this worker's clock, in µs: at least, and at most. Each holds by itself.
    ahead: [AtomicU64; 2],
    /// What they were made of, for the one task that writes them.
    redis_time: Mutex<RedisTime>,
    /// A server before Redis 7.0, which cannot let a key live longer: bounds are not told.
    is_too_old: AtomicBool,
}

// === impl Control ===

impl Control {
    /// What was learned under another epoch is out of date.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Whether counting buckets are being topped up.
    pub(crate) fn daemon_alive(&self) -> bool {
        self.daemon_alive.load(Relaxed)
    }

    /// Until when bare commands are right.
    pub(crate) fn trusted_until(&self) -> Micros {
        self.trusted_until.load(Relaxed)
    }

    /// An instant of Redis that has passed, in µs.
    pub(crate) fn redis_now(&self) -> u64 {
        self.redis_now.load(Relaxed)
    }

    /// The time of Redis.
    pub(crate) fn redis_time(&self) -> RedisTime {
        if self.is_too_old.load(Relaxed) {
            return RedisTime::default();
        }
        let [least, most] = &self.ahead;
        RedisTime::of(least.load(Relaxed), most.load(Relaxed))
    }

    /// Has buckets at rest taken from by scripts only, until Redis is another server.
    pub(crate) fn forbid_takes_at_rest(&self) {
        self.is_too_old.store(true, Relaxed);
    }

    fn set_redis_time(&self, time: RedisTime) {
        *self.redis_time.lock().unwrap_or_else(PoisonError::into_inner) = time;
        for (bound, value) in self.ahead.iter().zip(<[u64; 2]>::from(time.bounds())) {
            bound.store(value, Relaxed);
        }
    }

    /// Whether Redis has answered of late.
    pub(crate) fn is_in_sight(&self) -> bool {
        self.generation.load(Relaxed) != OUT_OF_SIGHT
    }

    /// Takes note of a poll sent at `sent` and answered at `received`.
    pub(crate) fn note(&self, polled: &Polled, sent: Micros, received: Micros) {
        // Generations begin at 1; a flushed Redis has none.
        let generation = polled.generation.unwrap_or(0);
        if self.generation.swap(generation, Relaxed) != generation {
            self.epoch.fetch_add(1, Relaxed);
        }
        self.daemon_alive.store(polled.daemons > 0, Relaxed);
        self.redis_now.store(polled.now, Relaxed);
        let before = *self.redis_time.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_redis_time(before.heard(polled.now, sent, received));
        self.trusted_until.store(sent.saturating_add(TRUST), Relaxed);
    }

    /// Redis gives no answer, and may be another one when it does again: what it says then is new.
    fn lose_sight(&self, now: Micros) {
        if now > self.trusted_until().saturating_add(IN_SIGHT - TRUST) {
            self.daemon_alive.store(false, Relaxed);
            self.generation.store(OUT_OF_SIGHT, Relaxed);
            self.set_redis_time(RedisTime::default());
        }
    }

    /// Redis has refused a poll, or the connection is broken.
    fn break_off(&self) {
        self.trusted_until.store(0, Relaxed);
        self.daemon_alive.store(false, Relaxed);
        self.generation.store(OUT_OF_SIGHT, Relaxed);
        self.set_redis_time(RedisTime::default());
        self.is_too_old.store(false, Relaxed);
    }
}

/// Polls again and again, and tells what was counted since, until no client is left.
async fn keep(
    control: Weak<Control>,
    mut connection: Connection,
    deadline: Duration,
    tallies: Arc<Tallies>,
    clock: Arc<Clock>,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut polls = 0_u32;
    loop {
        ticks.tick().await;
        let Some(control) = control.upgrade() else { return tallies.tell(&connection, deadline).await };
        clock.compare();
        let sent = clock.now();
        match tokio::time::timeout(deadline, scripts::poll(&mut connection)).await {
            Ok(Ok(polled)) => {
                control.note(&polled, sent, clock.now());
                polls = polls.wrapping_add(1);
                if polls.is_multiple_of(TELLS_EVERY) {
                    tallies.tell(&connection, deadline).await;
                }
            }
            Ok(Err(_)) => control.break_off(),
            Err(_) => control.lose_sight(clock.now()),
        }
    }
}

/// Starts polling; ends by itself when the last client is dropped.
pub(crate) fn start(
    control: &Arc<Control>,
    connection: Connection,
    deadline: Duration,
    tallies: Arc<Tallies>,
    clock: Arc<Clock>,
) {
    tokio::spawn(keep(Arc::downgrade(control), connection, deadline, tallies, clock));
}
