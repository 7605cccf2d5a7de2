//! The task that wakes buckets at the instants they asked for.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use super::{BucketEntry, Handle, Shared};
use crate::machine::{Micros, Timers};

/// The timer wheel of a client.
#[derive(Debug, Default)]
pub(crate) struct BucketTimers {
    wheel: Mutex<Wheel>,
    /// Notified of a timer that is due before the task's next look.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Wheel {
    timers: Timers<Arc<BucketEntry>>,
    /// The task's next look.
    looks_at: Micros,
}

/// Between two looks without a timer, to notice that the client is gone.
const IDLE: Duration = Duration::from_millis(250);

// === impl BucketTimers ===

impl BucketTimers {
    /// Has `entry` woken at `at`.
    pub(super) fn arm(&self, at: Micros, entry: &Arc<BucketEntry>) {
        let mut wheel = self.lock();
        wheel.timers.arm(at, entry.clone());
        let is_sooner = at < wheel.looks_at;
        drop(wheel);
        if is_sooner {
            self.sooner.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the task, which ends with the last client.
pub(crate) fn start(shared: &Arc<Shared>) {
    shared.runtime.spawn(run(Arc::downgrade(shared), shared.timers.clone()));
}

async fn run(shared: Weak<Shared>, timers: Arc<BucketTimers>) {
    let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else { return };
    let mut due = Vec::new();
    loop {
        let wait = {
            let Some(client) = shared.upgrade().map(Handle::of) else { return };
            let now = clock.now();
            timers.lock().timers.take_due(now, &mut due);
            for entry in due.drain(..) {
                entry.wake(&client);
            }
            let mut wheel = timers.lock();
            let until_due = |at: Micros| Duration::from_micros(at.saturating_sub(now).max(1));
            let wait = wheel.timers.due_at().map(until_due);
            wheel.looks_at = match wait {
                // A test may move its clock past the look.
                None if clock.is_manual() => Micros::MAX,
                wait => now.saturating_add(wait.unwrap_or(IDLE).as_micros() as Micros),
            };
            wait
        };
        let look = async {
            match wait {
                Some(wait) => clock.sleep(wait).await,
                None => clock.idle(IDLE).await,
            }
        };
        tokio::select! {
            biased;
            () = look => {}
            () = timers.sooner.notified() => {}
        }
    }
}
