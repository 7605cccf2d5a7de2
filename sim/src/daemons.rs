//! Daemons: their passes, their heartbeats, and changes of terms by freeze.

use topup_twin::{Bucket, Record};
use topup_wire::{bucket::Operation, constants::FREEZE_MICROS};

use crate::{
    fault::Fault,
    oracle::Note,
    plan::{Promise, SECOND},
    publisher::Publisher,
    world::{Happening, World},
};

/// A heartbeat is good for so long, and comes so often, in µs.
const GOOD_FOR: u64 = 2 * SECOND;
const BEATS: u64 = SECOND / 2;

// === impl World ===

impl World {
    /// Whether a daemon lives; after the traffic one does.
    fn has_daemon(&self) -> bool {
        !self.is_open() || self.plan.daemons.alive(self.now)
    }

    pub(crate) fn beat(&mut self) {
        if self.has_daemon() {
            self.server.beats = self.server.time(self.now) + GOOD_FOR;
        }
        self.push(self.now + BEATS, Happening::Beat);
    }

    /// A daemon's pass over all buckets.
    pub(crate) fn pass(&mut self, daemon: u64) {
        let (from, to) = if self.is_open() { self.plan.daemons.pass } else { (300_000, 900_000) };
        let next = self.now + self.dice.of(from..=to);
        self.push(next, Happening::Pass(daemon));
        if !self.has_daemon() {
            return;
        }
        self.heal();
        let Some(record) = self.server.record else { return };
        let all = self.dice.chance(1, 10);
        for bucket in 0..self.server.keys.len() {
            if self.dice.chance(9, 10) {
                self.look_after(bucket, &record, all);
            }
        }
    }

    /// Credits a bucket if that is due.
    fn look_after(&mut self, bucket: usize, record: &Record, all: bool) {
        let now = self.server.time(self.now);
        self.server.expire(bucket, now);
        let key = &mut self.server.keys[bucket];
        let Bucket::Counting(held) = key.bucket else { return };
        let credited = if held.is_previous {
            topup_twin::migrate(record, &mut key.bucket, now)
        } else {
            topup_twin::is_due(record, held, all, now) && topup_twin::refill(record, &mut key.bucket, now)
        };
        if !credited {
            return;
        }
        if let Bucket::Counting(after) = &mut key.bucket {
            let added = after.tokens - held.tokens;
            match self.fault {
                Some(Fault::RefillTwice) => {
                    after.tokens = (after.tokens + added).min(record.capacity as i64 - 1)
                }
                Some(Fault::RefillForgets) => after.tokens = held.tokens,
                _ => {}
            }
        }
        let after = key.bucket;
        self.tell(bucket, || match after {
            Bucket::Counting(after) => format!("DAEMON credits: {} tokens", after.tokens),
            _ => "DAEMON credits: full, and the key is gone".to_owned(),
        });
    }

    /// Publishes the limit again after a flush.
    fn heal(&mut self) {
        if self.server.record.is_none() {
            let now = self.server.time(self.now);
            let Publisher { published, .. } = self.publisher;
            self.server.record =
                Some(Record::new(&published.limit(self.plan.lease, self.plan.on_change), now));
            self.server.generation = now / 1_000;
        }
    }

    /// Publishes the desired terms: announces the change, and makes it once no worker uses the previous terms.
    pub(crate) fn publishes(&mut self) {
        let Publisher { desired, published, from, .. } = self.publisher;
        let is_overdue = self.overdue().is_some();
        if desired == published && !is_overdue {
            return;
        }
        let again = self.now + self.dice.of(5_000..=200_000);
        let Some(record) = self.server.record.filter(|_| self.has_daemon()) else {
            return self.push(again, Happening::Publishes);
        };
        let now = self.server.time(self.now);
        if self.server.frozen == 0 {
            (self.server.frozen, self.server.generation) = (now, self.server.generation + 1);
            for bucket in 0..self.books.len() {
                self.tell(bucket, || format!("DAEMON announces {desired:?}"));
            }
        }
        let is_previous = |bucket: Bucket| matches!(bucket, Bucket::Counting(held) if held.is_previous);
        let busy = self.server.keys.iter().any(|key| is_previous(key.bucket));
        if now < self.server.frozen + FREEZE_MICROS {
            return self.push(self.now + FREEZE_MICROS, Happening::Publishes);
        }
        if busy {
            return self.push(again, Happening::Publishes);
        }
        if let Some(change) = self.overdue() {
            return self.makes(&record, change);
        }
        let limit = desired.limit(self.plan.lease, self.plan.on_change);
        let since = from.map_or(now, |from| self.server.time(from));
        let at = if since <= record.since || since > now { now } else { since };
        let late = now - at;
        self.publisher.since = from.unwrap_or(self.now);
        for bucket in 0..self.books.len() {
            self.server.expire(bucket, now);
        }
        let mut changed = record.changed(&limit, at);
        if self.fault == Some(Fault::EarlierForgotten) {
            changed.earlier = Default::default();
        }
        self.server.record = Some(changed);
        (self.server.frozen, self.server.generation) = (0, self.server.generation + 1);
        self.publisher.published = desired;
        for bucket in 0..self.books.len() {
            if let Bucket::Counting(held) = &mut self.server.keys[bucket].bucket {
                held.is_previous = self.fault != Some(Fault::ChangeForgotten);
            }
            self.note(bucket, Note::Changed(desired, self.plan.on_change));
            self.tell(bucket, || format!("DAEMON publishes {desired:?}"));
            let at = self.now + self.dice.of(0..=2 * SECOND);
            self.push(at, Happening::Touch(bucket));
        }
        self.excuse(desired, published, late);
    }

    /// A change that is made late counts from its instant on. Buckets forget takes by the previous terms since then, so
    /// these tokens may be given twice.
    fn excuse(&mut self, desired: Promise, published: Promise, late: u64) {
        let of = |terms: Promise| (late * terms.tokens).div_ceil(terms.interval) + 1;
        if late > 0 {
            self.note_all(Note::Given(of(desired).max(of(published))));
        }
    }

    /// A bucket at rest is migrated over a change.
    pub(crate) fn touch(&mut self, bucket: usize) {
        let now = self.server.time(self.now);
        self.server.expire(bucket, now);
        if let (Some(record), Bucket::AtRest(_)) = (self.server.record, self.server.keys[bucket].bucket) {
            self.server.settle(bucket, &record, Operation::Refund(0), false, None, now);
        }
    }
}
