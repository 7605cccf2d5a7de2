//! The twin of `schedule.lua`: the terms of a record, and those that its schedule has changed them to.

use topup_wire::limit::ScheduledChange;

use crate::{
    record::{PreviousTerms, Record},
    time::arrived,
};

/// A record as of all its terms up to an instant: earlier ones, its own, and as it is after each change of its schedule.
pub(crate) struct Stages {
    records: Vec<Record>,
    /// The position of the record itself.
    own: usize,
}

// === impl Stages ===

impl Stages {
    pub(crate) fn new(record: &Record, now: u64) -> Self {
        let mut records = record.past();
        let own = records.len();
        records.push(*record);
        for change in record.schedule.changes().take_while(|change| change.at <= now) {
            records.push(records[records.len() - 1].changed_by(change));
        }
        Self { records, own }
    }

    /// The record itself.
    pub(crate) fn own(&self) -> &Record {
        &self.records[self.own]
    }

    /// The position of the record itself.
    pub(crate) const fn own_position(&self) -> usize {
        self.own
    }

    /// The terms that apply.
    pub(crate) fn present(&self) -> &Record {
        &self.records[self.records.len() - 1]
    }

    /// Whether no daemon has published the present terms.
    pub(crate) const fn is_ahead(&self) -> bool {
        self.records.len() > self.own + 1
    }

    /// The position of the latest terms for which `is_of` holds; of the previous ones if there are none, and of the present
    /// ones if there are no previous ones.
    pub(crate) fn wrote(&self, is_of: impl Fn(&Record) -> bool) -> usize {
        self.known(is_of).unwrap_or(self.records.len() - 1)
    }

    /// The same; `None` if there are no previous ones.
    pub(crate) fn known(&self, is_of: impl Fn(&Record) -> bool) -> Option<usize> {
        self.records.iter().rposition(is_of).or_else(|| self.own.checked_sub(1))
    }

    /// The record at a position, unless it is of terms before its own; capacity, pace and end of the terms.
    pub(crate) fn terms_of(&self, position: usize) -> (Option<&Record>, PreviousTerms, Option<u64>) {
        let record = &self.records[position];
        let Record { capacity, pace, filled, on_change, .. } = *record;
        let terms = PreviousTerms { capacity, pace, filled, on_change };
        let ended = self.records.get(position + 1).map(|later| later.since);
        ((position >= self.own).then_some(record), terms, ended)
    }

    /// The records after a position.
    pub(crate) fn after(&self, position: usize) -> &[Record] {
        &self.records[position + 1..]
    }

    /// Tokens and score under the present terms, of a bucket under those at a position.
    pub(crate) fn carried(&self, position: usize, tokens: i64, score: u64) -> (i64, u64) {
        self.after(position).iter().fold((tokens, score), |(tokens, score), later| match later.previous {
            Some(before) => later.migrate(before, tokens, score),
            None => (tokens, score),
        })
    }
}

// === impl Record ===

impl Record {
    /// The record after a change of its schedule.
    #[must_use]
    pub fn changed_by(&self, change: ScheduledChange) -> Self {
        let Self { capacity, pace, on_change, .. } = *self;
        let before = PreviousTerms { capacity, pace, filled: self.last_filled(change.at), on_change };
        let changed = Self {
            capacity: change.capacity.get(),
            pace: change.rate.pace(),
            terms_id: self.terms_id + 1,
            since: change.at,
            previous: Some(before),
            earlier: self.earlier_then(),
            schedule: self.schedule.after_first(),
            ..*self
        };
        let (anchor, anchored) = changed.migrate(before, self.anchor as i64, self.anchored);
        Self { anchor: anchor as u64, anchored, ..changed }
    }

    /// Whether a bucket at rest of a token bucket that is written at `now`, and not held, is an integer.
    pub fn rests_as_number(&self, now: u64) -> bool {
        let stages = Stages::new(self, now);
        let present = stages.present();
        let absent = if stages.is_ahead() { present.anchor as i64 } else { present.absent(now).0 };
        present.may_rest_as_number() && absent >= present.capacity as i64
    }

    /// The change ahead, if it comes before `at`.
    pub(crate) fn change_before(&self, at: u64) -> Option<ScheduledChange> {
        self.schedule.changes().next().filter(|change| at > change.at)
    }

    /// The instant at which a bucket of `tokens` has `goal` tokens; all of its capacity if `None`.
    pub(crate) fn reached(&self, mut tokens: i64, mut score: u64, goal: Option<i64>) -> u64 {
        let mut record = *self;
        let mut at = self.pace.instant(score, (goal.unwrap_or(self.capacity as i64) - tokens).max(0) as u64);
        while let Some(change) = record.change_before(at) {
            record = record.changed_by(change);
            if let Some(before) = record.previous {
                (tokens, score) = record.migrate(before, tokens, score);
            }
            let goal = goal.unwrap_or(record.capacity as i64);
            at = if tokens >= goal || goal > record.capacity as i64 {
                change.at
            } else {
                record.pace.instant(score, (goal - tokens) as u64)
            };
        }
        at
    }

    /// The instant at which a bucket is full that is full at `full_at` without the changes ahead.
    pub(crate) fn full_in_the_end(&self, full_at: u64) -> u64 {
        let Some(change) = self.change_before(full_at) else { return full_at };
        let (tokens, score, _) = arrived(self.capacity, self.pace, full_at, change.at);
        self.reached(tokens, score, None)
    }

    /// The record after all changes of its schedule up to that for which `is_of` holds; itself if there is none.
    pub(crate) fn after_changes(&self, is_of: impl Fn(&Self) -> bool) -> Self {
        let Stages { records, own } = Stages::new(self, u64::MAX);
        records.into_iter().skip(own).rev().find(is_of).unwrap_or(*self)
    }
}
