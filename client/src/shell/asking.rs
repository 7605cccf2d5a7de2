//! One task at a time asks Redis for what several tasks need.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// What tasks ask Redis for now.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Addresses. Each task holds what it asks for.
    asked: Mutex<HashSet<usize>>,
    ended: Notify,
}

/// The turn of one task. Its end lets another one in.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    asking: &'a Asking,
    address: usize,
}

// === impl Asking ===

impl Asking {
    /// Waits until no other task asks for `what`.
    pub(crate) async fn turn<T: ?Sized>(&self, what: &T) -> Turn<'_> {
        let address = std::ptr::from_ref(what).addr();
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.asked().insert(address) {
                return Turn { asking: self, address };
            }
            ended.await;
        }
    }

    fn asked(&self) -> MutexGuard<'_, HashSet<usize>> {
        // After a panic elsewhere, the addresses are still right.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Turn ===

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.asking.asked().remove(&self.address);
        self.asking.ended.notify_waiters();
    }
}
