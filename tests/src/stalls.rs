//! How long this machine has kept processes from running: what no program can be blamed for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::clock;

const NAP: Duration = Duration::from_millis(5);

/// Measures from when it is made until it is dropped, on a thread of its own.
#[derive(Debug)]
pub struct Stalls {
    worst: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}

// === impl Stalls ===

impl Stalls {
    /// Begins to measure.
    #[must_use]
    pub fn watch() -> Self {
        let (worst, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let stalls = Self { worst: worst.clone(), done: done.clone() };
        spawn(move || {
            while !done.load(Relaxed) {
                let slept = clock::now();
                sleep(NAP);
                let late = (clock::now() - slept).saturating_sub(NAP.as_micros() as u64);
                worst.fetch_max(late, Relaxed);
            }
        });
        stalls
    }

    /// The longest this thread was kept waiting so far, in µs.
    #[must_use]
    pub fn worst(&self) -> u64 {
        self.worst.load(Relaxed)
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
    }
}
