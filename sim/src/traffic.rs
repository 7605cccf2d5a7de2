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
            | Stream::Resets { gap }
            | Stream::Charges { gap, .. }
            | Stream::Comebacks { gap, .. } => self.dice.gap(gap),
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
            Stream::Charges { most, .. } => {
                let count = self.dice.of(1..=most);
                self.asks_now(bucket, Ask::Charge(count));
            }
            Stream::Resets { .. } => self.asks_now(bucket, Ask::PutIn(None)),
            Stream::Comebacks { most, .. } => self.comes_back(bucket, most),
            Stream::Once { .. } => {}
        }
        self.next_of(stream);
    }

    /// One worker takes, another gives back, a third takes a few, and then everybody comes, the first one before all.
    fn comes_back(&mut self, bucket: usize, most: u64) {
        let first = self.dice.index(self.plan.workers);
        let (second, third) = (self.dice.index(self.plan.workers), self.dice.index(self.plan.workers));
        let taken = self.dice.of(1..=most);
        let mut at = self.now;
        let ones = taken.min(30);
        let many = taken - ones;
        if many > 0 {
            self.push(at, Happening::Asks { worker: first, bucket, ask: Ask::Take(many, 0), until: 0 });
        }
        self.come(&mut at, 30_000, first, bucket, ones);
        at += self.dice.pick(&[1_000, 10_000, 300_000, 1_000_000]);
        let back = taken - self.dice.of(0..=taken / 8);
        self.push(at, Happening::Asks { worker: second, bucket, ask: Ask::PutIn(Some(back)), until: 0 });
        at += self.dice.pick(&[1_000, 15_000, 300_000, 1_270_000, 1_400_000]);
        let few = self.dice.of(3..=12);
        self.come(&mut at, 3_000, third, bucket, few);
        at += self.dice.pick(&[1_000, 30_000, 100_000, 300_000]);
        let again = self.dice.of(1..=most).min(60);
        self.come(&mut at, 20_000, first, bucket, again);
        let each = most.div_ceil(self.plan.workers as u64).min(20);
        for worker in 0..self.plan.workers {
            let mut at = at;
            self.come(&mut at, 3_000, worker, bucket, each);
        }
        let rest = most / 2;
        self.push(
            at + 5_000,
            Happening::Asks { worker: third, bucket, ask: Ask::Take(rest.max(1), 0), until: 0 },
        );
    }

    /// Schedules takes of one worker within some µs.
    fn come(&mut self, at: &mut u64, within: u64, worker: usize, bucket: usize, takes: u64) {
        for _ in 0..takes {
            *at += self.dice.of(0..=2 * within / takes);
            self.push(*at, Happening::Asks { worker, bucket, ask: Ask::Take(1, 0), until: 0 });
        }
    }

    fn asks_now(&mut self, bucket: usize, ask: Ask) {
        let worker = self.dice.index(self.plan.workers);
        self.push(self.now, Happening::Asks { worker, bucket, ask, until: 0 });
    }
}
