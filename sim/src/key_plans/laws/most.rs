//! The most that the plans of a key give in a window.

use crate::{
    clients::{Call, Rule},
    key_plans::{
        World,
        periods::{Period, Place},
    },
    plan::SECOND,
};

/// Redis remembers so many changes.
pub(super) const REMEMBERED: usize = 7;

// === impl World ===

impl World {
    /// The parts that a key may take from the call `first` on, if its tokens move at each change. Then the largest part of
    /// a token.
    pub(super) fn most(
        &self,
        periods: &[Period],
        first: &Call,
        until: u64,
        calls: (&[Call], &[Call]),
    ) -> (f64, f64) {
        // A call that was sent before a change took of the bucket before, or moved the tokens.
        let [(most, largest), (or, _)] =
            [false, true].map(|moves| self.most_if(moves, periods, first, until, calls));
        (most.max(or), largest)
    }

    /// The same, if a call that was sent before a change `moves` the tokens, where no later one does, or not.
    fn most_if(
        &self,
        moves: bool,
        periods: &[Period],
        first: &Call,
        until: u64,
        (calls, charges): (&[Call], &[Call]),
    ) -> (f64, f64) {
        // While a key is exempt or denied, its bucket stays as it is. If it never had one, the next one is full.
        let place = |period: &Period| match period.place {
            Place::Bucket(index) => Some(index),
            Place::Exempt | Place::Deny => None,
        };
        let rule = |i: usize| {
            let before = periods[..=i].iter().rev().find_map(place);
            before.or_else(|| periods[i..].iter().find_map(place)).map(|index| self.rules[index])
        };
        let seconds = |time: u64| time as f64 / SECOND as f64;
        let (mut capacity, mut comes, mut largest) = (0.0_f64, 0.0, 0.0_f64);
        // The end of the last time with a bucket.
        let mut left = None;
        // The period whose bucket has the tokens.
        let mut held = 0;
        for (i, period) in periods.iter().enumerate() {
            let Some(now) = rule(i) else { continue };
            if place(period).is_some() {
                let rested = left
                    .replace(period.until)
                    .is_some_and(|left| period.from >= left + self.limit.plans_fill);
                if rested && (first.sent..=until).contains(&period.from) {
                    // Redis has forgotten which bucket it had, so the next one is full.
                    comes += now.capacity as f64 * self.part(now);
                }
            }
            if period.from <= first.received && first.sent < period.until {
                capacity = capacity.max(now.capacity as f64 * self.part(now));
            }
            if period.from <= until && first.sent < period.until {
                largest = largest.max(self.part(now));
            }
            let time = until.min(period.until).saturating_sub(first.sent.max(period.from));
            comes += now.rate as f64 * seconds(time) * self.part(now);
            if place(period).is_none() {
                // Such a plan decides without a bucket.
                continue;
            }
            // The first call that moves the tokens: a take or a charge. Until then, they are in the bucket of before.
            let all = || calls.iter().chain(charges);
            let within = all().filter(|call| (period.from..=period.until).contains(&call.sent));
            let on_its_way = all().filter(|call| call.sent < period.from && period.from <= call.received);
            let moved = within.map(|call| call.received).min();
            let moved = moved.or_else(|| on_its_way.filter(|_| moves).map(|call| call.received).min());
            let Some(moved) = moved else { continue };
            let (before, last) = (rule(held), std::mem::replace(&mut held, i));
            // The key may be back at the plan that it had.
            let is_left = |before: &Rule| (last + 1..=i).filter_map(rule).any(|other| other != *before);
            let Some(before) = before.filter(is_left) else { continue };
            let (own_from, begins) = (periods[last].from, periods[last + 1].from);
            if i - last >= REMEMBERED {
                // Redis may have forgotten which bucket has the debt.
                comes += self.max_debt as f64 * self.part(before);
            }
            if begins >= first.sent && begins <= until {
                // It counts as full at the change if it is full by now.
                let filled = |since: u64| before.rate as f64 * seconds(moved.saturating_sub(since));
                let denies = |call: &&Call| call.is_allowed == Some(false) && call.received <= begins;
                let lacked = calls.iter().filter(denies).filter(|call| call.sent >= own_from);
                let is_full =
                    |call: &Call| filled(call.sent) + (call.count + 1) as f64 >= before.capacity as f64;
                if lacked.into_iter().all(is_full) {
                    let most = before.capacity + self.max_debt;
                    comes += filled(begins).min(most as f64) * self.part(before);
                }
            }
        }
        (capacity + comes, largest)
    }

    /// Millionths of a token that a key may have in a window if each change gives a capacity.
    pub(super) fn most_anew(&self, periods: &[Period], from: u64, until: u64) -> u128 {
        let (mut capacity, mut rate, mut anew) = (0, 0, 0);
        for period in periods.iter().filter(|period| period.from <= until && from < period.until) {
            let Place::Bucket(index) = period.place else { continue };
            let rule = self.rules[index];
            (capacity, rate) = (rule.capacity.max(capacity), rule.rate.max(rate));
            anew += if period.from > from { rule.capacity } else { 0 };
        }
        u128::from((capacity + anew) * SECOND) + u128::from(rate) * u128::from(until - from)
    }
}
