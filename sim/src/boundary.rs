//! Plans and events of schedules: terms change at an instant that the record has told ahead, with daemons or without.

use topup_twin::{Bucket, Record};
use topup_wire::limit::{OnChange, Schedule, ScheduledChange, Supply};

use crate::{
    dice::Dice,
    oracle::Note,
    plan::{Daemons, Plan, Promise, SECOND, Stream},
    world::{Happening, World},
};

/// Terms that schedules change to: of all forms of buckets.
const TERMS: [Promise; 10] = [
    Promise::new(100, 100, SECOND),
    Promise::new(10, 10, SECOND),
    Promise::new(20, 100, SECOND),
    Promise::new(3, 2, SECOND),
    Promise::new(1_000, 100, SECOND),
    Promise::new(1_000, 997, SECOND),
    Promise::new(40, 7, SECOND),
    Promise::new(300, 20_000, SECOND),
    Promise::new(100, 5, SECOND),
    Promise::new(1, 2, SECOND),
];

// === impl Plan ===

impl Plan {
    /// A plan of `seed` with one to three scheduled changes of terms. Daemons are dead over them, or over some.
    pub fn over_boundaries(seed: u64, workers: usize) -> Self {
        let mut dice = Dice::new(seed ^ 0x5ced_0115);
        let mut plan = Self::calm(seed, workers, dice.pick(&TERMS));
        plan.lasts = dice.of(5..=9) * SECOND;
        plan.buckets = dice.of(1..=2) as usize;
        plan.on_change =
            dice.pick(&[OnChange::Keep, OnChange::Keep, OnChange::Proportional, OnChange::Reset]);
        plan.drift = dice.pick(&[0, 500]);
        if dice.chance(1, 3) {
            plan.lease = Some((dice.of(2..=50), dice.of(50_000..=2 * SECOND)));
        }
        let mut at = dice.of(SECOND..=3 * SECOND);
        for _ in 0..dice.of(1..=3) {
            plan.schedule.push((at, dice.pick(&TERMS)));
            at += dice.of(SECOND / 10..=3 * SECOND);
        }
        plan.daemons = match dice.of(0..=5) {
            0 => Daemons::one(),
            1 => Daemons { many: 0, ..Daemons::one() },
            2 => Daemons {
                dead: vec![(dice.of(0..=SECOND), dice.of(2 * SECOND..=8 * SECOND))],
                ..Daemons::one()
            },
            // Dead at once before the first boundary.
            _ => {
                let first = plan.schedule[0].0;
                let dead = (first - dice.of(0..=SECOND), first + dice.of(0..=5 * SECOND));
                Daemons { dead: vec![dead], ..Daemons::one() }
            }
        };
        let fastest = plan.promises().map(|promise| promise.tokens * SECOND / promise.interval).max();
        let fastest = fastest.unwrap_or(1).clamp(1, 2_000);
        if dice.chance(1, 4) {
            // Buckets are left alone while they fill.
            let takes = plan.terms.capacity.min(100) / workers as u64 + 1;
            plan.traffic.push(Stream::Bursts { gap: dice.of(8..=25) * SECOND / 10, takes, spread: 20_000 });
            return plan;
        }
        plan.traffic
            .push(Stream::Takes { gap: SECOND * 10 / (fastest * dice.of(5..=30)), most: dice.of(1..=3) });
        plan.traffic.push(match dice.of(0..=3) {
            0 => Stream::Crowds { gap: SECOND / 2, size: dice.of(4..=40), stays: 20_000 },
            1 => Stream::Refunds { gap: SECOND / 2, most: 5 },
            2 => Stream::Waiters { gap: SECOND / 5, most: 3, patience: SECOND },
            _ => Stream::Bursts { gap: SECOND, takes: dice.of(1..=10), spread: dice.of(1..=300_000) },
        });
        plan
    }

    /// The schedule in the record, where the run begins at `begins` of Redis.
    pub(crate) fn record_schedule(&self, begins: u64) -> Schedule {
        Schedule::new(self.schedule.iter().map(|(at, promise)| {
            let terms = promise.limit(None, self.on_change).terms;
            let Supply::Rate(rate) = terms.supply else { unreachable!("a promise is a rate") };
            ScheduledChange { at: begins + at, capacity: terms.capacity, rate }
        }))
    }
}

// === impl World ===

impl World {
    /// A scheduled change applies from now on.
    pub(crate) fn boundary(&mut self, i: usize) {
        let (_, terms) = self.plan.schedule[i];
        self.publisher.desired = terms;
        self.note_all(Note::Changed(terms, self.plan.on_change));
        for bucket in 0..self.books.len() {
            self.tell(bucket, || format!("SCHEDULE changes to {terms:?}"));
        }
        let after = self.dice.of(0..=300_000);
        self.push(self.now + after, Happening::Publishes);
    }

    /// The first scheduled change that no daemon has made, if its instant has come.
    pub(crate) fn overdue(&self) -> Option<ScheduledChange> {
        let now = self.server.time(self.now);
        self.server.record?.schedule.changes().next().filter(|change| change.at <= now)
    }

    /// A daemon makes a change that was due at `change`. Scripts have followed it since.
    pub(crate) fn makes(&mut self, record: &Record, change: ScheduledChange) {
        let now = self.server.time(self.now);
        for bucket in 0..self.books.len() {
            self.server.expire(bucket, now);
            if let Bucket::Counting(held) = &mut self.server.keys[bucket].bucket {
                held.is_previous = true;
            }
            self.tell(bucket, || "DAEMON makes the scheduled change".to_owned());
            let at = self.now + self.dice.of(0..=2 * SECOND);
            self.push(at, Happening::Touch(bucket));
        }
        let changed = record.changed_by(change);
        self.server.record = Some(changed);
        self.server.generation += 1;
        if changed.schedule.first_at().is_some_and(|at| at <= now) {
            self.push(self.now + SECOND / 10, Happening::Publishes);
        } else {
            self.publisher.published = self.publisher.desired;
            self.server.frozen = 0;
        }
    }
}
