//! Values that tasks share.

use std::sync::{Mutex, PoisonError};

/// Locks what tasks share, and changes it.
pub(crate) fn locked<T, R>(mutex: &Mutex<T>, change: impl FnOnce(&mut T) -> R) -> R {
    change(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}
