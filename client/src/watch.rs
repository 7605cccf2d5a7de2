//! What a worker keeps an eye on: is a daemon alive, has anything been published, and does its clock keep step?

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use topup_wire::{connection::Connection, reply::Polled, scripts};

use crate::{clock::Clock, tally::Tallies};

/// Between two looks. A change reaches workers within this and a tick; half a second keeps that under the second
/// promised, and costs Redis a few µs.
const EVERY: Duration = Duration::from_millis(500);

/// What stands for a generation when Redis did not answer: none ever gets there.
const OUT_OF_SIGHT: u64 = u64::MAX;

/// What was seen at the last look. Shared by all tasks of a worker, written by one.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    generation: AtomicU64,
    /// Moves when anything published changes, or is published again after a flush.
    epoch: AtomicU64,
    daemon_alive: AtomicBool,
}

// === impl Watch ===

impl Watch {
    /// Everything learned under another epoch is out of date.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Whether buckets are being topped up, so that a bare `DECR` may be trusted.
    pub(crate) fn daemon_alive(&self) -> bool {
        self.daemon_alive.load(Relaxed)
    }

    /// Whether Redis answered at the last look.
    pub(crate) fn is_in_sight(&self) -> bool {
        self.generation.load(Relaxed) != OUT_OF_SIGHT
    }

    /// Takes note of a look.
    pub(crate) fn note(&self, polled: &Polled) {
        // Generations begin at 1; a flushed Redis has none.
        let generation = polled.generation.unwrap_or(0);
        if self.generation.swap(generation, Relaxed) != generation {
            self.epoch.fetch_add(1, Relaxed);
        }
        self.daemon_alive.store(polled.daemons > 0, Relaxed);
    }

    /// Nothing known is nothing to rely on: takes go by script until Redis answers again, and whatever it says then is
    /// new, since it may have been another one.
    fn lose_sight(&self) {
        self.daemon_alive.store(false, Relaxed);
        self.generation.store(OUT_OF_SIGHT, Relaxed);
    }

    /// Looks again and again, and tells what was counted since, until no client is left.
    async fn keep(
        this: Weak<Self>,
        mut connection: Connection,
        deadline: Duration,
        tallies: Arc<Tallies>,
        clock: Arc<Clock>,
    ) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(watch) = this.upgrade() else { return tallies.tell(&connection, deadline).await };
            clock.compare();
            let looked = tokio::time::timeout(deadline, scripts::poll(&mut connection)).await;
            match looked {
                Ok(Ok(polled)) => {
                    watch.note(&polled);
                    tallies.tell(&connection, deadline).await;
                }
                Ok(Err(_)) | Err(_) => watch.lose_sight(),
            }
        }
    }

    /// Starts looking; ends by itself when the last client is dropped.
    pub(crate) fn start(
        self: &Arc<Self>,
        connection: Connection,
        deadline: Duration,
        tallies: Arc<Tallies>,
        clock: Arc<Clock>,
    ) {
        tokio::spawn(Self::keep(Arc::downgrade(self), connection, deadline, tallies, clock));
    }
}
