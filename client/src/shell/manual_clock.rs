//! A clock that a test moves, and what waits for its instants.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::machine::Micros;

/// A clock that a test moves. Clones of its `Arc` are one clock.
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    now: AtomicU64,
    /// Rises with everything that asks for the time or waits for an instant.
    activity: AtomicU64,
    waits: Mutex<Waits>,
    /// Most µs by which a reading is behind. Each is behind by another amount, so the clock steps back.
    pub(crate) unsteady: AtomicU64,
    /// Clients try first takes. These note the full instant up to 3 ms late, which tests of callers would see: they move the
    /// clock by the very time of a token.
    pub(crate) has_first_takes: AtomicBool,
}

#[derive(Debug, Default)]
struct Waits {
    last_id: u64,
    by_instant: BTreeMap<(Micros, u64), (Precision, Waker)>,
}

/// Whether a wait ends at its very instant, however far the clock is moved at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// It does.
    Exact,
    /// It ends when the clock stands still at its instant or behind it: nothing is decided at the instant itself.
    Coarse,
}

/// A wait for an instant of a clock.
#[derive(Debug)]
pub(crate) struct ManualSleep {
    clock: Arc<ManualClock>,
    until: Micros,
    precision: Precision,
    id: Option<u64>,
}

// === impl ManualClock ===

impl ManualClock {
    /// µs since the clock's start.
    pub(crate) fn now(&self) -> Micros {
        let now = self.steady();
        let mixed = self.activity().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        now.saturating_sub(mixed % (self.unsteady.load(Relaxed) + 1))
    }

    /// The time of all sleeps.
    fn steady(&self) -> Micros {
        self.activity.fetch_add(1, Relaxed);
        self.now.load(Relaxed)
    }

    /// Moves the clock forward to `now`, and wakes no task.
    pub(crate) fn set(&self, now: Micros) {
        self.now.fetch_max(now, Relaxed);
    }

    /// A number that rises while tasks use the clock.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Relaxed)
    }

    /// The first instant that something waits for exactly.
    pub(crate) fn next(&self) -> Option<Micros> {
        let waits = self.lock();
        let exact = waits.by_instant.iter().find(|(_, (precision, _))| *precision == Precision::Exact);
        exact.map(|((at, _), _)| *at)
    }

    /// Wakes what waits for instants that have come. Returns whether anything does.
    pub(crate) fn wake(&self, precision: Precision) -> bool {
        let now = self.now.load(Relaxed);
        let due: Vec<Waker> = {
            let mut waits = self.lock();
            let due = waits.by_instant.range(..=(now, u64::MAX)).filter(|(_, (of, _))| *of == precision);
            let due: Vec<(Micros, u64)> = due.map(|(key, _)| *key).collect();
            due.iter().filter_map(|key| waits.by_instant.remove(key)).map(|(_, waker)| waker).collect()
        };
        let any = !due.is_empty();
        // Without the lock: a woken task may wait again.
        due.into_iter().for_each(Waker::wake);
        any
    }

    pub(crate) fn sleep(self: &Arc<Self>, duration: Duration, precision: Precision) -> ManualSleep {
        let until = self.steady().saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        ManualSleep { clock: self.clone(), until, precision, id: None }
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ManualSleep ===

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.steady() >= self.until {
            return Poll::Ready(());
        }
        let clock = self.clock.clone();
        let mut waits = clock.lock();
        let id = self.id.unwrap_or(waits.last_id + 1);
        waits.last_id = waits.last_id.max(id);
        self.id = Some(id);
        waits.by_instant.insert((self.until, id), (self.precision, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.clock.lock().by_instant.remove(&(self.until, id));
        }
    }
}
