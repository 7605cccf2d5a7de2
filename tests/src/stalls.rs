//! A watch on the machine: the time for which this process, and perhaps the programs under test, could not run.

use std::collections::VecDeque;
use std::fs::read_to_string;
use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::clock;

const NAP: Duration = Duration::from_millis(5);
/// A nap that is too long by less is none to remember, in µs.
const LATE: u64 = 500;

/// Waits for a CPU within so many µs count as one stall.
const SPELL: u64 = 250_000;

/// Measures from when it is made until it is dropped, on a thread of its own.
#[derive(Debug)]
pub struct Stalls {
    worst: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
    /// Naps that were too long: until when, and by how much.
    late: Arc<Mutex<Vec<(u64, u64)>>>,
    done: Arc<AtomicBool>,
    /// The thread under test, and how long it had waited for a CPU before.
    thread: String,
    before: Scheduled,
}

// === impl Stalls ===

impl Stalls {
    /// Begins to measure.
    #[must_use]
    pub fn watch() -> Self {
        let (worst, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let done = Arc::new(AtomicBool::new(false));
        let naps = Arc::new(Mutex::new(Vec::new()));
        let thread = std::fs::read_link("/proc/thread-self")
            .map_or_else(|_| "thread-self".to_owned(), |path| path.display().to_string());
        let before = Scheduled::of(&thread);
        let watched = thread.clone();
        let stalls = Self {
            worst: worst.clone(),
            total: total.clone(),
            late: naps.clone(),
            done: done.clone(),
            thread,
            before,
        };
        spawn(move || {
            let mut waits = VecDeque::new();
            while !done.load(Relaxed) {
                let slept = clock::now();
                // The measurement: a thread that should run again after the nap.
                sleep(NAP);
                let woken = clock::now();
                let late = (woken - slept).saturating_sub(NAP.as_micros() as u64);
                if late >= LATE {
                    naps.lock().unwrap_or_else(PoisonError::into_inner).push((woken, late));
                }
                total.fetch_add(late, Relaxed);
                // Many short waits keep a thread from running as a long one does. The server on the other side waits as
                // long. A thread that has ended has waited for nothing.
                waits.push_back((woken, Scheduled::of(&watched).waited));
                while waits.front().is_some_and(|(at, _)| woken - at > SPELL) {
                    waits.pop_front();
                }
                let spell = waits.back().map_or(0, |(_, now)| now.saturating_sub(waits[0].1));
                worst.fetch_max(late.max(2 * spell), Relaxed);
            }
        });
        stalls
    }

    /// The longest stall so far, in µs. A stall is a time for which the watch should have run and did not. The time that
    /// the watched thread and its server waited for a CPU within a quarter of a second is one, too.
    #[must_use]
    pub fn worst(&self) -> u64 {
        self.worst.load(Relaxed)
    }

    /// The time so far for which the thread that made the watch was ready to run and had no CPU, in µs. Other processes
    /// delay a test with one thread by no more. 0 where the kernel does not count it.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.scheduled().waited
    }

    fn scheduled(&self) -> Scheduled {
        let now = Scheduled::of(&self.thread);
        Scheduled {
            ran: now.ran.saturating_sub(self.before.ran),
            waited: now.waited.saturating_sub(self.before.waited),
        }
    }

    /// A bound for work that takes at most `idle` on an idle machine: `idle × (run + waited) ÷ run`, plus the longest
    /// stall. Run and waited are times of the thread that made the watch, with and without a CPU.
    #[must_use]
    pub fn allow(&self, idle: Duration) -> Duration {
        let Scheduled { ran, waited } = self.scheduled();
        let slowdown = 1.0 + waited as f64 / (ran as f64).max(1.0);
        idle.mul_f64(slowdown) + Duration::from_micros(self.worst())
    }

    /// The sum of all times so far for which the watch should have run and did not, in µs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The part of [`Stalls::total`] that ended between two instants, in µs.
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

/// The time for which a thread ran, and for which it was ready to run and had no CPU, in µs. Zeros where the kernel does
/// not count.
#[derive(Debug, Default)]
struct Scheduled {
    ran: u64,
    waited: u64,
}

// === impl Scheduled ===

impl Scheduled {
    /// Since the thread began.
    fn of(thread: &str) -> Self {
        let counts = read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
        let mut counts =
            counts.split_whitespace().map(|nanos| nanos.parse::<u64>().unwrap_or_default() / 1_000);
        Self { ran: counts.next().unwrap_or_default(), waited: counts.next().unwrap_or_default() }
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
