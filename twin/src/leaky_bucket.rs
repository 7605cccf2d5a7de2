//! The twin of `leaky_bucket.lua`.

use topup_wire::{
    bucket::{Operation, Reservation},
    constants::{EXACT, LATEST_START},
    limit::{Algorithm, OnChange},
    reply::{Settled, Verdict},
};

use crate::{
    apply::{State, apply, writes},
    record::Record,
    stages::Stages,
    time::Credit,
};

/// A bucket that leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    /// Tokens in it.
    pub level: u64,
    /// The instant up to which it has leaked.
    pub at: u64,
    /// The instant since which the terms apply under which it has.
    pub since: u64,
}

// === impl Level ===

impl LeakyBucket {
    /// The same under the present terms; `None` when it says nothing of these.
    fn present(self, stages: &Stages) -> Option<Self> {
        let wrote = stages.known(|stage| stage.since == self.since)?;
        stages.after(wrote).iter().try_fold(self, Self::migrated)
    }

    /// The same under the terms of `record`, from those before.
    fn migrated(self, record: &Record) -> Option<Self> {
        let before = record.previous?;
        let (k, leaked) = before.pace.owed(self.at, record.since);
        let level = u128::from(self.level).saturating_sub(k) as u64;
        let mut part = 0.0;
        if level > 0 && leaked < record.since {
            // Doubles, as in Lua: a share of one token, once per change.
            part = (record.since - leaked) as f64 * before.pace.n as f64 / before.pace.p as f64;
        }
        let level = match before.on_change {
            OnChange::Keep => level,
            OnChange::Proportional => {
                let scaled = (level as f64 * record.capacity as f64 / before.capacity as f64).ceil();
                (scaled as u64).min(EXACT)
            }
            OnChange::Reset => 0,
        };
        let shift = (f64::min(1.0, part) * record.pace.p as f64 / record.pace.n as f64) as u64;
        let at = record.pace.start(self.at.max(record.since) - shift);
        Some(Self { level, at, since: record.since })
    }

    /// The instant at which it is empty.
    fn empty_at(self, record: &Record) -> u64 {
        let (mut bucket, mut record) = (self, *record);
        let mut at = record.pace.instant(bucket.at, bucket.level);
        while let Some(change) = record.change_before(at) {
            record = record.changed_by(change);
            bucket = bucket.migrated(&record).unwrap_or(bucket);
            at = if bucket.level > 0 { record.pace.instant(bucket.at, bucket.level) } else { change.at };
        }
        at
    }

    /// The same at `now`.
    fn leaked(self, record: &Record, now: u64) -> Self {
        if self.at > now + LATEST_START {
            return Self { at: record.pace.start(now), ..self };
        }
        let (k, at) = record.pace.owed(self.at, now);
        Self { level: u128::from(self.level).saturating_sub(k) as u64, at, ..self }
    }
}

impl State for LeakyBucket {
    const ALGORITHM: Algorithm = Algorithm::LeakyBucket;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let stages = Stages::new(record, now);
        let record = stages.present();
        let migrated = state.and_then(|held| held.present(&stages)).map(|held| held.leaked(record, now));
        let empty = Self { level: 0, at: record.pace.start(now), since: record.since };
        let mut bucket = migrated.filter(|held| held.level > 0).unwrap_or(empty);
        let moved = state.is_some_and(|held| (held.at, held.since) != (bucket.at, bucket.since));

        let Self { at, since, .. } = bucket;
        let until_leaked = |level: u64| Self { level, at, since }.empty_at(record).saturating_sub(now);
        let free = |level: u64| record.capacity.saturating_sub(level);
        let ahead = if bucket.level > 0 { until_leaked(bucket.level) } else { 0 };
        let charges = matches!(operation, Operation::Charge { .. });
        let tokens = record.capacity as i64 - bucket.level as i64;
        let mut settled =
            apply(record.capacity, if charges { tokens } else { tokens.max(0) }, operation, now);
        if charges {
            settled.missing = settled.missing.min(1);
        }
        if settled.missing > 0 {
            let above = (bucket.level + settled.granted).saturating_sub(record.capacity);
            settled.wait = until_leaked(settled.missing + above);
        }
        if let Operation::Reserve(Reservation { longest, .. }) = operation {
            match settled.verdict {
                Verdict::Allowed if ahead <= longest => settled.wait = ahead,
                Verdict::Allowed => {
                    settled.tokens += settled.granted as i64;
                    (settled.verdict, settled.granted, settled.wait) = (Verdict::Denied, 0, ahead - longest);
                }
                Verdict::Denied => settled.wait = settled.wait.max(ahead.saturating_sub(longest)),
                _ => {}
            }
        }
        bucket.level += settled.granted;
        match operation {
            Operation::Refund(count) => {
                bucket.level = bucket.level.saturating_sub(count);
                settled.tokens = free(bucket.level) as i64;
            }
            Operation::Reset => bucket.level = 0,
            _ => {}
        }
        if writes(operation, settled.verdict, moved) {
            *state = (bucket.level > 0).then_some(bucket);
        }
        settled.into()
    }

    fn expiry(&self, record: &Record) -> u64 {
        self.empty_at(&record.after_changes(|record| record.since == self.since)).div_ceil(1_000)
    }
}
