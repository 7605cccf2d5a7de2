//! The task that steps buckets whose time has come.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use super::{BucketEntry, Handle, Shared};
use crate::machine::{Micros, Timers};

/// The timer wheel of a client.
#[derive(Debug, Default)]
pub(crate) struct BucketTimers {
    wheel: Mutex<Wheel>,
    /// Told when something is due before the task would look.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Wheel {
    timers: Timers<Arc<BucketEntry>>,
    /// When the task looks next.
    looks_at: Micros,
}

/// Without a timer, the task looks so often whether its client is still there.
const IDLE: Duration = Duration::from_millis(250);

// === impl BucketTimers ===

impl BucketTimers {
    /// Has `entry` stepped at `at`.
    pub(super) fn arm(&self, at: Micros, entry: &Arc<BucketEntry>) {
        let sooner = {
            let mut wheel = self.lock();
            wheel.timers.arm(at, entry.clone());
            at < wheel.looks_at
        };
        if sooner {
            self.sooner.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Steps buckets in time, until no client is left.
pub(crate) fn start(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.runtime.spawn(keep(weak, shared.timers.clone()));
}

async fn keep(shared: Weak<Shared>, timers: Arc<BucketTimers>) {
    let mut due = Vec::new();
    loop {
        let wait = {
            let Some(client) = shared.upgrade().map(Handle::of) else { return };
            let now = client.shared().clock.now();
            timers.lock().timers.take_due(now, &mut due);
            for entry in due.drain(..) {
                entry.wake(&client);
            }
            let mut wheel = timers.lock();
            let wait =
                wheel.timers.due_at().map_or(IDLE, |at| Duration::from_micros(at.saturating_sub(now).max(1)));
            wheel.looks_at = now.saturating_add(wait.as_micros() as Micros);
            wait
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = timers.sooner.notified() => {}
        }
    }
}
