//! The wait queue of a bucket. A take is a waiter without patience.

use std::collections::VecDeque;

use super::Micros;

/// A caller that waits for an answer.
pub trait Waiter {
    /// Whether the caller no longer waits.
    fn has_left(&self) -> bool;
}

/// A waiter in the queue.
#[derive(Debug)]
pub(super) struct Waiting<W> {
    pub(super) waiter: W,
    /// Tokens.
    pub(super) count: u64,
    /// When it came.
    pub(super) since: Micros,
    /// The end of its patience; `since` for a take.
    pub(super) until: Micros,
}

/// Waiters in their order. The first one needs no heap, since most buckets never have a second waiter.
#[derive(Debug)]
pub(super) struct WaitQueue<W> {
    first: Option<Waiting<W>>,
    others: VecDeque<Waiting<W>>,
    /// Tokens that all waiters want.
    demand: u64,
    /// Takes among the waiters.
    takes: u32,
}

// === impl Waiting ===

impl<W> Waiting<W> {
    pub(super) const fn is_take(&self) -> bool {
        self.until <= self.since
    }
}

// === impl WaitQueue ===

impl<W> Default for WaitQueue<W> {
    fn default() -> Self {
        Self { first: None, others: VecDeque::new(), demand: 0, takes: 0 }
    }
}

impl<W: Waiter> WaitQueue<W> {
    pub(super) fn push(&mut self, waiting: Waiting<W>) {
        self.demand = self.demand.saturating_add(waiting.count);
        self.takes += u32::from(waiting.is_take());
        if self.first.is_none() {
            self.first = Some(waiting);
        } else {
            self.others.push_back(waiting);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<W>> {
        let waiting = self.first.take()?;
        self.first = self.others.pop_front();
        if self.first.is_none() && self.others.capacity() > 64 {
            self.others = VecDeque::new();
        }
        self.forget(&waiting);
        Some(waiting)
    }

    pub(super) fn first(&self) -> Option<&Waiting<W>> {
        self.first.as_ref()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Tokens that all waiters want.
    pub(super) const fn demand(&self) -> u64 {
        self.demand
    }

    /// Removes waiters at the front that no longer wait, and returns how many.
    pub(super) fn remove_departed(&mut self) -> usize {
        let mut left = 0;
        while self.first.as_ref().is_some_and(|first| first.waiter.has_left()) {
            self.pop();
            left += 1;
        }
        left
    }

    /// Waiters at the front that want one token each.
    pub(super) fn waiters_for_one(&self) -> usize {
        if self.demand == self.len() as u64 {
            return self.len();
        }
        self.iter().take_while(|waiting| waiting.count == 1).count()
    }

    /// The waiters at the front that want no more than `tokens` together, and how many they want.
    pub(super) fn waiters_for(&self, tokens: u64) -> (usize, u64) {
        let mut front = (0, 0);
        for waiting in self.iter() {
            match waiting.count.checked_add(front.1) {
                Some(wanted) if wanted <= tokens => front = (front.0 + 1, wanted),
                _ => break,
            }
        }
        front
    }

    /// When the oldest take came.
    pub(super) fn oldest_take(&self) -> Option<Micros> {
        if self.takes == 0 {
            return None;
        }
        self.iter().find(|waiting| waiting.is_take()).map(|waiting| waiting.since)
    }

    /// Removes the waiters that `leaves` chooses, in order.
    pub(super) fn extract(&mut self, mut leaves: impl FnMut(&Waiting<W>) -> bool) -> Vec<Waiting<W>> {
        let mut gone = Vec::new();
        let mut stay = VecDeque::new();
        for waiting in self.first.take().into_iter().chain(self.others.drain(..)) {
            if leaves(&waiting) {
                gone.push(waiting);
            } else {
                stay.push_back(waiting);
            }
        }
        self.first = stay.pop_front();
        self.others = stay;
        gone.iter().for_each(|waiting| self.forget(waiting));
        gone
    }

    /// Removes the takes among the first `many` waiters, in order.
    pub(super) fn extract_first(&mut self, many: usize) -> Vec<Waiting<W>> {
        if many == 0 || self.takes == 0 {
            return Vec::new();
        }
        let mut turn = 0;
        self.extract(|waiting| {
            turn += 1;
            turn <= many && waiting.is_take()
        })
    }

    /// Whether any waiter is a take.
    pub(super) const fn has_takes(&self) -> bool {
        self.takes > 0
    }

    /// Whether any waiter has patience.
    pub(super) fn has_waiters(&self) -> bool {
        self.takes as usize != self.len()
    }

    fn iter(&self) -> impl Iterator<Item = &Waiting<W>> {
        self.first.iter().chain(&self.others)
    }

    fn forget(&mut self, waiting: &Waiting<W>) {
        self.demand = self.demand.saturating_sub(waiting.count);
        self.takes -= u32::from(waiting.is_take());
    }
}
