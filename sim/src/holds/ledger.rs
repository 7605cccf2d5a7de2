//! The ledger of a run: sums of tokens, as callers know them.

use std::sync::{Mutex, PoisonError};

/// Sums of tokens, as callers know them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    pub(super) charged: u64,
    /// Perhaps taken, by calls without an answer.
    pub(super) unsure: u64,
    pub(super) holds: u64,
}

/// Locks what tasks share, and changes it.
pub(super) fn locked<T, R>(mutex: &Mutex<T>, change: impl FnOnce(&mut T) -> R) -> R {
    change(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}
