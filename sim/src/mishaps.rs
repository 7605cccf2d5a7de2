//! Mishaps: steps of the clock, flushes, failovers, changes of terms.

use crate::{
    oracle::Note,
    plan::{Mishap, Promise, SECOND},
    server::Key,
    world::{Happening, World},
};

/// Workers trust an estimate for no longer than this, in µs, with some time for a command on its way.
const TRUSTED: u64 = SECOND + 400_000;

// === impl World ===

impl World {
    /// Schedules a mishap of the plan.
    pub(crate) fn plan_mishap(&mut self, i: usize) {
        let (at, mishap) = self.plan.mishaps[i];
        if let Mishap::Failover(lost) = mishap {
            self.push(at.saturating_sub(lost), Happening::Replicates);
        }
        self.push(at, Happening::Mishap(i));
    }

    /// Keeps the present state as that of a replica.
    pub(crate) fn replicates(&mut self) {
        let granted = self.books.iter().map(|books| books.granted + books.charged).collect();
        self.replica = Some((self.server.clone(), granted));
    }

    pub(crate) fn mishap(&mut self, i: usize) {
        let (_, mishap) = self.plan.mishaps[i];
        for bucket in 0..self.books.len() {
            self.tell(bucket, || format!("MISHAP {mishap:?}"));
        }
        let capacity = self.plan.promises().map(|promise| promise.capacity).max().unwrap_or(0);
        let lease = self.plan.lease.map_or(0, |(_, ttl)| ttl + ttl / 63);
        let longest_delay = self.plan.longest_delay();
        let until = self.now.saturating_add(TRUSTED.max(lease));
        // Reserved tokens stay good: as many as a bucket owes, and those that a part of the debt is repaid of.
        let reserved_until = until.saturating_add(longest_delay);
        let in_hand = if longest_delay > 0 { 2 * capacity } else { capacity };
        match mishap {
            Mishap::Step(by) => {
                self.server.step_clock(by);
                if let Ok(forward) = u64::try_from(by) {
                    self.note_all(Note::Stepped(forward));
                    self.note_all(Note::Pardoned(in_hand, reserved_until));
                } else if self.plan.promises().any(Promise::rests_as_number) {
                    self.note_all(Note::Pardoned(capacity, until));
                }
            }
            Mishap::Flush => {
                self.server.keys.fill(Key::default());
                (self.server.record, self.server.generation, self.server.frozen) = (None, 0, 0);
                self.note_all(Note::Filled);
                self.note_all(Note::Pardoned(in_hand, reserved_until));
            }
            Mishap::Failover(_) => self.fail_over(reserved_until),
            Mishap::Change(terms, ago) => self.change(terms, ago),
        }
    }

    fn fail_over(&mut self, until: u64) {
        let Some((server, granted)) = self.replica.take() else { return };
        self.server = server;
        self.connection += 1;
        for (bucket, before) in granted.into_iter().enumerate() {
            let books = &self.books[bucket];
            let lost = books.granted + books.charged - before;
            self.note(bucket, Note::Given(lost));
            self.note(bucket, Note::Pardoned(lost, until));
        }
    }

    fn change(&mut self, terms: Promise, ago: u64) {
        self.publisher.desired = terms;
        self.publisher.from = (ago > 0).then(|| self.now.saturating_sub(ago).max(self.publisher.since + 1));
        if let Some(from) = self.publisher.from {
            for bucket in 0..self.books.len() {
                let order = self.next_order();
                self.books[bucket].notes.push((from, order, Note::Changing(terms)));
            }
        }
        let after = self.dice.of(0..=300_000);
        self.push(self.now + after, Happening::Publishes);
    }
}
