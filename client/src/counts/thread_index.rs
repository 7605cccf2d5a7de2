//! A number for each thread, so that it has counters which no other thread writes.

use std::{
    cell::Cell,
    sync::{Mutex, PoisonError},
};

/// Threads with an index of their own. Further ones share counters.
pub(super) const MOST_THREADS: usize = 32;
/// The index of a thread that has none of its own.
pub(super) const SHARED: usize = MOST_THREADS;
/// Stands for an index that is not known yet.
const UNKNOWN: usize = usize::MAX;

/// Indexes that no thread has. A thread that begins sees all writes of the one that had its index before.
static FREE: Mutex<Free> = Mutex::new(Free { returned: Vec::new(), next: 0 });

struct Free {
    returned: Vec<usize>,
    next: usize,
}

/// An index, returned when its thread ends.
struct Owned(usize);

thread_local! {
    static INDEX: Cell<usize> = const { Cell::new(UNKNOWN) };
    static OWNED: Owned = Owned::take();
}

// === impl Owned ===

impl Owned {
    fn take() -> Self {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.returned.pop() {
            return Self(index);
        }
        let index = free.next.min(SHARED);
        free.next = free.next.saturating_add(1);
        Self(index)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // From here on, this thread counts in the place that threads share.
        INDEX.set(SHARED);
        if self.0 < SHARED {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).returned.push(self.0);
        }
    }
}

/// The index of this thread, as far as it is known: below [`MOST_THREADS`] if it is its own.
#[inline]
pub(super) fn known_thread_index() -> usize {
    INDEX.get()
}

/// The index of this thread: below [`MOST_THREADS`] if it is its own, else [`SHARED`].
#[cold]
pub(super) fn thread_index() -> usize {
    if INDEX.get() == UNKNOWN {
        INDEX.set(OWNED.try_with(|owned| owned.0).unwrap_or(SHARED));
    }
    INDEX.get()
}
