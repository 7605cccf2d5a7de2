//! The control poll: asks Redis for its time, the generation and the daemons that are alive.

use std::{
    hash::BuildHasher,
    sync::{Arc, Weak},
    time::Duration,
};

use topup_wire::{connection::Connection, scripts};

use super::{
    Limits,
    clock::{Clock, micros},
    control::Control,
    key_plans::KeyPlans,
    pauses::Pauses,
};
use crate::{
    counts,
    machine::Micros,
    outage::{Outages, Slowness, log_slow},
};

/// Time between two polls. Two polls fit into the time of [trust](super::control), so that a slow one ends none.
const EVERY: Duration = Duration::from_millis(250);
/// Polls between two hand-overs of counts.
const HAND_OVER_EVERY: u32 = 4;
/// Polls between two reports that this worker is alive, of a worker that may decide by itself.
const ALIVE_EVERY: u32 = 4;
/// A worker that reports no more counts for this long.
const ALIVE: Duration = Duration::from_secs(3);
/// A reply is slow that takes this part of the deadline.
const SLOW: Micros = 5;
/// The parts of a client that polls look after.
pub(crate) struct Polled {
    pub(crate) connection: Connection,
    pub(crate) deadline: Duration,
    pub(crate) outages: Arc<Outages>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) pauses: Arc<Pauses>,
    pub(crate) plans: Arc<KeyPlans>,
}

/// Starts the polls, which end with the last client.
pub(crate) fn start(control: &Arc<Control>, polled: Polled) {
    tokio::spawn(run(Arc::downgrade(control), polled));
}

async fn run(control: Weak<Control>, polled: Polled) {
    let Polled { mut connection, deadline, outages, limits, clock, pauses, plans } = polled;
    let (mut alive, mut slowness) = (Alive::new(connection.clone()), Slowness::default());
    let mut ticks = clock.ticks(EVERY);
    let mut polls = 0_u32;
    loop {
        ticks.tick(&clock).await;
        let Some(control) = control.upgrade() else {
            return alive.retire(deadline).await;
        };
        clock.compare();
        let mut sent = clock.now();
        let mut answer = clock.timeout(deadline, scripts::poll(&mut connection)).await;
        if let Ok(Err(_)) = answer {
            // Only a command tells that the connection has broken. Redis may be back, and the next one connects anew.
            sent = clock.now();
            answer = clock.timeout(deadline, scripts::poll(&mut connection)).await;
        }
        match answer {
            Ok(Ok(polled)) => {
                let received = clock.now();
                let before = control.epoch();
                // Trust in what is known grows only once the changes are known.
                control.catch_up(&polled, &mut connection, (&clock, deadline), &limits).await;
                control.note(&polled, sent, received);
                limits.end(polled.now);
                plans.catch_up(&polled, sent, &mut connection, &clock, &limits).await;
                if control.epoch() != before {
                    plans.tell();
                }
                pauses.catch_up(&polled, control.stored_time(), &mut connection, &clock, deadline).await;
                let epoch = control.epoch();
                outages.end(received, |limit| {
                    limits.find(limit).is_some_and(|one| one.current(epoch).is_some())
                });
                let took = received.saturating_sub(sent);
                if let Some(is_slow) = slowness.note(took, micros(deadline) / SLOW) {
                    log_slow(is_slow, Duration::from_micros(took));
                }
                if control.uses_local() && (!alive.reported || polls.is_multiple_of(ALIVE_EVERY)) {
                    alive.report(&control, deadline).await;
                }
                polls = polls.wrapping_add(1);
                #[cfg(feature = "metrics")]
                counts::emit_poll(Some(Duration::from_micros(took)));
                if polls.is_multiple_of(HAND_OVER_EVERY) && polled.newer_schema.is_none() {
                    counts::hand_over(&limits, &connection, deadline, &clock).await;
                }
            }
            unanswered => {
                #[cfg(feature = "metrics")]
                counts::emit_poll(None);
                match unanswered {
                    Ok(_) => control.disconnected(),
                    Err(_) => control.unanswered(clock.now()),
                }
            }
        }
        #[cfg(feature = "metrics")]
        counts::emit(&limits);
    }
}

/// Reports that this worker is alive.
struct Alive {
    connection: Connection,
    /// A random number.
    id: String,
    reported: bool,
}

// === impl Alive ===

impl Alive {
    fn new(connection: Connection) -> Self {
        let random = std::hash::RandomState::new().hash_one(std::process::id());
        Self { connection, id: format!("{random:016x}"), reported: false }
    }

    async fn report(&mut self, control: &Control, deadline: Duration) {
        self.reported = true;
        let report = scripts::report_worker(&mut self.connection, &self.id, ALIVE);
        // Where Redis refuses the report, the last count holds.
        if let Ok(Ok(workers)) = tokio::time::timeout(deadline, report).await {
            control.note_workers(workers);
        }
    }

    async fn retire(&mut self, deadline: Duration) {
        if self.reported {
            let retire = scripts::retire_worker(&mut self.connection, &self.id);
            let _ = tokio::time::timeout(deadline, retire).await;
        }
    }
}
