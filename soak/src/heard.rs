//! Reports of the workers of a run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::worker::{Call, Told};

/// Reports of workers.
#[derive(Debug, Default)]
pub struct Heard {
    /// All calls.
    pub calls: Vec<Call>,
    /// Starts of workers.
    pub ready: usize,
    /// Workers that have ended in order, and the tasks that they left.
    pub ended: Vec<usize>,
}

// === impl Heard ===

impl Heard {
    /// Notes what a worker tells.
    pub fn note(&mut self, told: Told) {
        match told {
            Told::Ready(_) => self.ready += 1,
            Told::Call(call) => self.calls.push(call),
            Told::Ended(tasks) => self.ended.push(tasks),
        }
    }
}

/// The reports so far.
pub fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
