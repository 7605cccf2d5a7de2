//! The ideal bucket, in whole numbers.

use topup_wire::limit::OnChange;

use super::note::Note;
use crate::plan::Promise;

/// A bucket of ideal precision.
pub(super) struct Ideal {
    /// Units of a token: all rates bring whole numbers of them in a µs.
    pub(super) token: i128,
    capacity: i128,
    /// Units in each µs.
    pub(super) rate: i128,
    pub(super) level: i128,
    /// Units below zero that charges have left in Redis. Only tokens that were in hand then are admitted meanwhile.
    pub(super) debt: i128,
    at: u64,
    /// Until the change is made, no less than these.
    changing: Vec<(i128, i128)>,

    in_doubt: Vec<(u64, i128)>,
    pardon: i128,
    pardoned_until: u64,
    /// Units that doubts have left in the bucket, which Redis may have charged all the same.
    pub(super) gifts: i128,
    pub(super) most: i128,
}

// === impl Ideal ===

impl Ideal {
    pub(super) fn new(promises: &[Promise]) -> Self {
        let mut intervals: Vec<u64> = promises.iter().map(|promise| promise.interval).collect();
        intervals.sort_unstable();
        intervals.dedup();
        let token = intervals.iter().map(|interval| i128::from(*interval)).product();
        let mut ideal = Self {
            token,
            capacity: 0,
            rate: 0,
            level: 0,
            debt: 0,
            at: 0,
            changing: Vec::new(),
            in_doubt: Vec::new(),
            pardon: 0,
            pardoned_until: 0,
            gifts: 0,
            most: 0,
        };
        (ideal.capacity, ideal.rate) = ideal.of(promises[0]);
        ideal.level = ideal.capacity;
        ideal
    }

    fn of(&self, promise: Promise) -> (i128, i128) {
        let rate = self.token / i128::from(promise.interval) * i128::from(promise.tokens);
        (self.tokens(promise.capacity), rate)
    }

    pub(super) fn tokens(&self, count: u64) -> i128 {
        i128::from(count) * self.token
    }

    /// The effective capacity and rate: the larger ones during a change.
    fn effective(&self) -> (i128, i128) {
        let larger =
            |(capacity, rate): (i128, i128), other: &(i128, i128)| (capacity.max(other.0), rate.max(other.1));
        self.changing.iter().fold((self.capacity, self.rate), larger)
    }

    fn pass(&mut self, micros: u64) {
        let (capacity, rate) = self.effective();
        let come = i128::from(micros) * rate;
        self.level = (self.level + come).min(capacity);
        self.debt = (self.debt - come).max(0);
    }

    /// Units that may be missing, since they are in doubt or pardoned.
    fn forgiven(&mut self, at: u64) -> i128 {
        // What Redis has too much stays until the bucket is full.
        if at > self.pardoned_until && self.level >= self.effective().0 {
            self.pardon = 0;
        }
        // A pardon is used up.
        let used = (-self.level).clamp(0, self.pardon);
        (self.level, self.pardon) = (self.level + used, self.pardon - used);
        self.in_doubt.iter().map(|(_, units)| units).sum()
    }

    /// Takes in `note`: the units by which the level is below zero.
    pub(super) fn note(&mut self, at: u64, note: Note) -> i128 {
        self.pass(at - self.at);
        self.at = at;
        match note {
            Note::Admitted(count) => self.level -= self.tokens(count),
            Note::Charged(count, most, elsewhere) => {
                self.level -= self.tokens(count);
                let debt = self.tokens(elsewhere) - self.level;
                self.debt = self.debt.max(debt.min(self.tokens(most)));
            }
            Note::Given(count) => {
                self.level = (self.level + self.tokens(count)).min(self.effective().0);
                self.debt = (self.debt - self.tokens(count)).max(0);
            }
            Note::Filled => (self.level, self.debt) = (self.effective().0, 0),
            Note::Changing(promise) => {
                // No window may exceed the larger of the two. A raise that is made late counts from its instant on, and
                // takes by the previous terms since then are forgotten.
                let before = self.effective().0;
                self.changing.push(self.of(promise));
                self.level += self.effective().0 - before;
            }
            Note::Changed(promise, on_change) => {
                let before = self.capacity;
                (self.capacity, self.rate) = self.of(promise);
                let made = (self.capacity, self.rate);
                self.changing.retain(|changing| *changing != made);
                self.level = match on_change {
                    OnChange::Keep => self.level,
                    OnChange::Proportional if self.level < 0 => self.level,
                    OnChange::Proportional => {
                        (self.level / self.token + 1) * self.capacity / (before / self.token)
                    }
                    OnChange::Reset => self.capacity,
                };
                self.level = self.level.min(self.capacity);
            }
            Note::Doubtful(number, count) => {
                let units = self.tokens(count);
                self.in_doubt.push((number, units));
            }
            Note::Paid(number, unpaid) => {
                let paid = |(of, units): &(u64, i128)| if *of == number { *units } else { 0 };
                let doubtful = self.in_doubt.iter().map(paid).sum();
                self.in_doubt.retain(|(of, _)| *of != number);
                let unpaid = i128::from(unpaid).saturating_mul(self.token).min(doubtful);
                self.level = (self.level + unpaid).min(self.effective().0);
                self.gifts += unpaid;
            }
            Note::Pardoned(count, until) => {
                self.pardon = self.pardon.max(self.tokens(count));
                self.pardoned_until = self.pardoned_until.max(until);
            }
            Note::Forgotten(count) => self.gifts += self.tokens(count),
            Note::Stepped(micros) => self.pass(micros),
            Note::Seen(..) => {}
        }
        let forgiven = self.forgiven(at);
        let over = -self.level - forgiven;
        if matches!(note, Note::Admitted(_)) {
            self.most = self.most.max(-self.level);
        }
        over
    }

    /// Thousandths of a token.
    pub(super) fn thousandths(&self, units: i128) -> u64 {
        u64::try_from(units * 1_000 / self.token).unwrap_or(0)
    }
}
