//! Tokens that come over time, by terms that may change once.

use topup_lab::clock::Micros;

use crate::{rule::Rule, take::Take};

/// Other terms before an instant that lies between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The terms before.
    pub before: Rule,
    /// The earliest instant of the change.
    pub from: Micros,
    /// The latest.
    pub until: Micros,
}

/// Tokens that have come by an instant, in parts of a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    rule: Rule,
    change: Option<Change>,
}

// === impl Change ===

impl Change {
    /// Whether `take` may have been decided by the terms before or by those after.
    pub(super) const fn is_around(&self, take: &Take) -> bool {
        take.received >= self.from && take.sent <= self.until
    }
}

// === impl Credit ===

impl Credit {
    pub(super) const fn of(rule: Rule, change: Option<Change>) -> Self {
        Self { rule, change }
    }

    pub(super) const fn change(&self) -> Option<Change> {
        self.change
    }

    /// Parts of a token.
    pub(super) fn unit(&self) -> i128 {
        i128::from(self.rule.micros) * self.change.map_or(1, |change| i128::from(change.before.micros))
    }

    /// The most parts that have come by `at`.
    pub(super) fn most(&self, at: Micros) -> i128 {
        self.by(at, i128::max)
    }

    /// The least parts that have come by `at`.
    pub(super) fn least(&self, at: Micros) -> i128 {
        self.by(at, i128::min)
    }

    /// The most that a bucket holds at `at`, in parts.
    pub(super) fn capacity(&self, at: Micros) -> i128 {
        let (now, before) = (self.rule.capacity, self.change.map(|change| (change, change.before.capacity)));
        let capacity = match before {
            Some((change, before)) if at < change.from => before,
            Some((change, before)) if at <= change.until => before.max(now),
            _ => now,
        };
        i128::from(capacity) * self.unit()
    }

    /// The most parts that come in a µs.
    pub(super) fn fastest(&self) -> i128 {
        self.change.map_or(0, |change| self.per_micro(change.before)).max(self.per_micro(self.rule))
    }

    /// The longest time in which a bucket fills.
    pub(super) fn window(&self) -> Micros {
        self.change.map_or(0, |change| change.before.window()).max(self.rule.window())
    }

    /// The parts that a bucket lacks after the change, and it holds fewer than before if that is below 0.
    pub(super) fn grows_by(&self, change: &Change) -> i128 {
        (i128::from(self.rule.capacity) - i128::from(change.before.capacity)) * self.unit()
    }

    fn by(&self, at: Micros, or: fn(i128, i128) -> i128) -> i128 {
        let after = self.per_micro(self.rule);
        let Some(Change { before, from, until }) = self.change else { return i128::from(at) * after };
        let before = self.per_micro(before);
        let spans = [at.min(from), at.clamp(from, until) - from, at.saturating_sub(until)];
        spans
            .into_iter()
            .map(i128::from)
            .zip([before, or(before, after), after])
            .map(|(span, per)| span * per)
            .sum()
    }

    fn per_micro(&self, rule: Rule) -> i128 {
        i128::from(rule.tokens) * (self.unit() / i128::from(rule.micros))
    }
}
