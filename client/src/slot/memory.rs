//! A denial told without a lock: what a storm of takes asks for, again and again.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        MutexGuard,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
            fence,
        },
    },
};

use super::{Slot, State};
use crate::{
    clock::Micros,
    known::{Denial, Refusal},
};

/// What every take of one token is told until some instant. Read by many tasks at once, written by whoever holds the
/// bucket's state.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// 0 while there is nothing to tell, and while the rest is being written.
    until: AtomicU64,
    epoch: AtomicU64,
    promised: AtomicU64,
    tokens: AtomicU64,
    capacity: AtomicU64,
}

/// A bucket's state, in the hands of one. What came of it is in the bucket's [`Memory`] once it is let go.
pub(super) struct Held<'s> {
    slot: &'s Slot,
    state: MutexGuard<'s, State>,
}

// === impl Memory ===

impl Memory {
    /// Whether there is nothing to tell, as far as can be said without a clock.
    pub(super) fn is_empty(&self) -> bool {
        self.until.load(Relaxed) == 0
    }

    /// What to tell at `now`.
    pub(super) fn denial(&self, now: Micros, epoch: u64) -> Option<Denial> {
        let until = self.until.load(Acquire);
        if now >= until || epoch != self.epoch.load(Relaxed) {
            return None;
        }
        let (tokens, capacity) = (self.tokens.load(Relaxed), self.capacity.load(Relaxed));
        let wait = self.promised.load(Relaxed).saturating_sub(now);
        // Written anew meanwhile, it may be something of both.
        fence(Acquire);
        (self.until.load(Relaxed) == until).then_some(Denial { tokens, capacity, wait })
    }

    /// Tells this from now on.
    fn keep(&self, refusal: Option<Refusal>) {
        let Refusal { epoch, until, promised, tokens, capacity } = refusal.unwrap_or_default();
        if until == self.until.load(Relaxed) && (until == 0 || epoch == self.epoch.load(Relaxed)) {
            return;
        }
        self.until.store(0, Relaxed);
        fence(Release);
        self.epoch.store(epoch, Relaxed);
        self.promised.store(promised, Relaxed);
        self.tokens.store(tokens, Relaxed);
        self.capacity.store(capacity, Relaxed);
        self.until.store(until, Release);
    }
}

// === impl Held ===

impl<'s> Held<'s> {
    pub(super) const fn new(slot: &'s Slot, state: MutexGuard<'s, State>) -> Self {
        Self { slot, state }
    }
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.slot.memory.keep(self.state.refusal());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(until: Micros) -> Refusal {
        Refusal { epoch: 1, until, promised: until + 10, tokens: until / 2, capacity: until / 2 }
    }

    #[test]
    fn a_denial_is_told_until_its_time_and_under_its_epoch() {
        let memory = Memory::default();
        assert!(memory.is_empty() && memory.denial(0, 0).is_none());
        memory.keep(Some(refusal(100)));
        assert_eq!(memory.denial(99, 1), Some(Denial { tokens: 50, capacity: 50, wait: 11 }));
        assert_eq!(memory.denial(100, 1), None, "too late");
        assert_eq!(memory.denial(99, 2), None, "published anew");
        memory.keep(None);
        assert!(memory.is_empty() && memory.denial(0, 1).is_none());
    }

    #[test]
    fn who_reads_while_it_is_written_reads_all_of_one_or_nothing() {
        let memory = Memory::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..200_000).for_each(|i| memory.keep(Some(refusal(2 * i)))));
            let mut told = 0;
            while !writer.is_finished() || told == 0 {
                if let Some(Denial { tokens, capacity, wait }) = memory.denial(1, 1) {
                    assert_eq!((tokens, wait), (capacity, 2 * tokens + 9));
                    told += 1;
                }
            }
        });
    }
}
