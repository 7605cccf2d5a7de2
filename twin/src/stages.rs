//! The twin of `schedule.lua`: the terms of a record, and those that its schedule has changed them to.

use topup_wire::limit::ScheduledChange;

use crate::{
    record::{PreviousTerms, Record},
    time::arrived,
};

/// A record as it is after each change of its schedule up to an instant. The record itself is the first.
pub(crate) struct Stages(Vec<Record>);

/// The terms under which a bucket was written.
#[derive(Clone, Copy)]
pub(crate) enum Wrote {
    /// The previous terms of the record itself.
    Previous(PreviousTerms),
    /// The terms of a stage, by its number.
    Stage(usize),
}

// === impl Stages ===

impl Stages {
    pub(crate) fn new(record: &Record, now: u64) -> Self {
        let mut stages = vec![*record];
        for change in record.schedule.changes().take_while(|change| change.at <= now) {
            stages.push(stages[stages.len() - 1].changed_by(change));
        }
        Self(stages)
    }

    /// The record itself.
    pub(crate) fn own(&self) -> &Record {
        &self.0[0]
    }

    /// The terms that apply.
    pub(crate) fn present(&self) -> &Record {
        &self.0[self.0.len() - 1]
    }

    /// Whether no daemon has published the present terms.
    pub(crate) fn is_ahead(&self) -> bool {
        self.0.len() > 1
    }

    /// The latest stage for which `is_of` holds; the previous terms if there is none, and the present ones if there are
    /// no previous ones.
    pub(crate) fn wrote(&self, is_of: impl Fn(&Record) -> bool) -> Wrote {
        self.known(is_of).unwrap_or(Wrote::Stage(self.0.len() - 1))
    }

    /// The same; `None` if there are no previous ones.
    pub(crate) fn known(&self, is_of: impl Fn(&Record) -> bool) -> Option<Wrote> {
        let stage = self.0.iter().rposition(is_of).map(Wrote::Stage);
        stage.or_else(|| self.0[0].previous.map(Wrote::Previous))
    }

    /// The record of a stage, unless its time is over; else capacity, pace and end of the terms.
    pub(crate) fn terms_of(&self, wrote: Wrote) -> (Option<&Record>, PreviousTerms, Option<u64>) {
        match wrote {
            Wrote::Previous(before) => (None, before, Some(self.0[0].since)),
            Wrote::Stage(i) => {
                let Record { capacity, pace, filled, on_change, .. } = self.0[i];
                let before = PreviousTerms { capacity, pace, filled, on_change };
                (Some(&self.0[i]), before, self.0.get(i + 1).map(|later| later.since))
            }
        }
    }

    /// The stages after that.
    pub(crate) fn after(&self, wrote: Wrote) -> &[Record] {
        match wrote {
            Wrote::Previous(_) => &self.0,
            Wrote::Stage(i) => &self.0[i + 1..],
        }
    }

    /// Tokens and score under the present terms.
    pub(crate) fn carried(&self, wrote: Wrote, tokens: i64, score: u64) -> (i64, u64) {
        self.after(wrote).iter().fold((tokens, score), |(tokens, score), later| match later.previous {
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
        let Stages(stages) = Stages::new(self, u64::MAX);
        stages.into_iter().rev().find(is_of).unwrap_or(*self)
    }
}
