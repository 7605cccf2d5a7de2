//! A watch on the machine: how long it kept this process from running, and so perhaps the programs under test.

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::clock;

const NAP: Duration = Duration::from_millis(5);
/// A nap that is too long by less is none to remember, in µs.
const LATE: u64 = 500;

/// Measures from when it is made until it is dropped, on a thread of its own.
#[derive(Debug)]
pub struct Stalls {
    worst: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
    /// Naps that were too long: until when, and by how much.
    late: Arc<Mutex<Vec<(u64, u64)>>>,
    done: Arc<AtomicBool>,
}

// === impl Stalls ===

impl Stalls {
    /// Begins to measure.
    #[must_use]
    pub fn watch() -> Self {
        let (worst, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let done = Arc::new(AtomicBool::new(false));
        let naps = Arc::new(Mutex::new(Vec::new()));
        let stalls =
            Self { worst: worst.clone(), total: total.clone(), late: naps.clone(), done: done.clone() };
        spawn(move || {
            while !done.load(Relaxed) {
                let slept = clock::now();
                // The measurement: a thread that should run again after the nap.
                sleep(NAP);
                let woken = clock::now();
                let late = (woken - slept).saturating_sub(NAP.as_micros() as u64);
                if late >= LATE {
                    naps.lock().unwrap_or_else(PoisonError::into_inner).push((woken, late));
                }
                worst.fetch_max(late, Relaxed);
                total.fetch_add(late, Relaxed);
            }
        });
        stalls
    }

    /// The longest time so far for which this thread should have run and did not, in µs.
    #[must_use]
    pub fn worst(&self) -> u64 {
        self.worst.load(Relaxed)
    }

    /// The sum of all such times so far, in µs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The sum of such times that ended between two instants, in µs.
    #[must_use]
    pub fn between(&self, from: u64, until: u64) -> u64 {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.iter()
            .filter(|(at, _)| (from..=until + 2 * NAP.as_micros() as u64).contains(at))
            .map(|(_, late)| late)
            .sum()
    }

    /// Whether the machine never stood still for as long as `bound`. If it did, `what` cannot be judged, and stderr
    /// says so, though the test may pass.
    #[must_use]
    pub fn below(&self, bound: Duration, what: &str) -> bool {
        let worst = Duration::from_micros(self.worst());
        if worst >= bound {
            void(&format!("{what}: the machine stood still for {worst:?}, the bound is {bound:?}"));
        }
        worst < bound
    }
}

/// Says on stderr that a measurement is void, and why. The test may pass all the same.
pub fn void(why: &str) {
    // The output of a macro would be shown for failed tests only.
    let _ = writeln!(stderr(), "void: {why}");
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
    }
}
