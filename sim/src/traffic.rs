//! Traffic: the callers of each stream, one after the other.

use crate::{
    plan::{Ask, Stream},
    world::{Happening, World},
};

// === impl World ===

impl World {
    /// Schedules the next callers of a stream.
    pub(crate) fn next_of(&mut self, stream: usize) {
        let gap = match self.plan.traffic[stream] {
            Stream::Takes { gap, .. } if self.plan.steady => gap,
            Stream::Takes { gap, .. }
            | Stream::Bursts { gap, .. }
            | Stream::Crowds { gap, .. }
            | Stream::Waiters { gap, .. }
            | Stream::Refunds { gap, .. }
            | Stream::Resets { gap } => self.dice.gap(gap),
            Stream::Once { at, worker, ask } => {
                return self.push(at, Happening::Asks { worker, bucket: 0, ask, until: 0 });
            }
        };
        self.push(self.now + gap, Happening::Traffic(stream));
    }

    /// The callers of a stream whose time has come.
    pub(crate) fn traffic(&mut self, stream: usize) {
        if !self.is_open() {
            return;
        }
        let bucket = self.dice.index(self.plan.buckets);
        match self.plan.traffic[stream] {
            Stream::Takes { most, .. } => {
                let count = if most > 1 && self.dice.chance(1, 2) { self.dice.of(1..=most) } else { 1 };
                self.asks_now(bucket, Ask::Take(count, 0));
            }
            Stream::Bursts { takes, spread, .. } => {
                for worker in 0..self.plan.workers {
                    for _ in 0..takes {
                        let at = self.now + self.dice.of(0..=spread);
                        self.push(at, Happening::Asks { worker, bucket, ask: Ask::Take(1, 0), until: 0 });
                    }
                }
            }
            Stream::Crowds { size, stays, .. } => {
                let worker = self.dice.index(self.plan.workers);
                let until = self.now + stays;
                for _ in 0..size {
                    self.push(self.now, Happening::Asks { worker, bucket, ask: Ask::Take(1, 0), until });
                }
            }
            Stream::Waiters { most, patience, .. } => {
                let count = self.dice.of(1..=most);
                self.asks_now(bucket, Ask::Take(count, patience));
            }
            Stream::Refunds { most, .. } => {
                let count = self.dice.of(1..=most);
                self.asks_now(bucket, Ask::PutIn(Some(count)));
            }
            Stream::Resets { .. } => self.asks_now(bucket, Ask::PutIn(None)),
            Stream::Once { .. } => {}
        }
        self.next_of(stream);
    }

    fn asks_now(&mut self, bucket: usize, ask: Ask) {
        let worker = self.dice.index(self.plan.workers);
        self.push(self.now, Happening::Asks { worker, bucket, ask, until: 0 });
    }
}
