//! No window gives a key more than its plans promise.

use topup_wire::limit::OnChange;

use crate::{
    clients::{Call, Rule, never_over},
    key_plans::{
        LATE, World,
        periods::{Period, Place},
    },
    plan::SECOND,
};

// === impl World ===

impl World {
    pub(super) fn never_over(
        &self,
        periods: &[Period],
        calls: &[Call],
        charges: &[Call],
    ) -> Result<(), String> {
        let is_for = |call: &Call, place: fn(Place) -> bool| {
            let mut at = periods.iter().filter(|period| place(period.place));
            at.any(|period| period.from <= call.received && call.sent < period.until)
        };
        // Charges of an exempt or denied key are of no bucket. A charge on its way may meet a bucket that has
        // been left.
        let has_bucket = |call: &&Call| !is_for(call, |place| !matches!(place, Place::Bucket(_)));
        let charged: Vec<&Call> = charges.iter().filter(has_bucket).collect();
        let counts =
            |call: &&Call| call.is_allowed == Some(true) && !is_for(call, |place| place == Place::Exempt);
        let taken: Vec<&Call> = calls.iter().filter(counts).collect();
        if self.limit.on_change == OnChange::Reset {
            return self.never_over_anew(periods, &taken);
        }
        let proportional = self.limit.on_change == OnChange::Proportional;
        // A scaled debt is another one.
        let charged = if proportional { Vec::new() } else { charged };
        for first in taken.iter().chain(&charged) {
            let mut used = 0.0;
            for call in taken.iter().filter(|call| call.sent >= first.sent) {
                used += call.count as f64 * self.parts(periods, call).min_by(f64::total_cmp).unwrap_or(1.0);
                let before = charged.iter().filter(|one| first.sent <= one.sent && one.received <= call.sent);
                let owed: u64 = before.map(|charge| charge.count).sum();
                let (most, part) = self.most(periods, first, call.received, (calls, charges));
                let slack = part * (1.0 + self.late() as f64 / SECOND as f64);
                if used + owed as f64 >= most + slack - 1e-6 {
                    let (from, until) = (first.sent, call.received);
                    return Err(format!(
                        "never over: {used} and {owed} charged of {most} from {from} to {until}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// With `reset`, a change begins a bucket anew.
    fn never_over_anew(&self, periods: &[Period], taken: &[&Call]) -> Result<(), String> {
        never_over(taken, |from, until| self.most_anew(periods, from, until) + self.late())
    }

    /// A token under each plan that may have decided a call: 1, or with `proportional` its share of the capacity.
    fn parts(&self, periods: &[Period], call: &Call) -> impl Iterator<Item = f64> {
        let at = periods.iter().filter(|period| period.from <= call.received && call.sent < period.until);
        at.filter_map(|period| match period.place {
            Place::Bucket(index) => Some(self.part(self.rules[index])),
            Place::Exempt | Place::Deny => None,
        })
    }

    pub(super) fn part(&self, rule: Rule) -> f64 {
        if self.limit.on_change == OnChange::Proportional { 1.0 / rule.capacity as f64 } else { 1.0 }
    }

    /// Millionths of a token that commands may take which were late, and met a full bucket: of each client one.
    fn late(&self) -> u128 {
        let rate = self.rules.iter().map(|rule| rule.rate).max().unwrap_or(0);
        let late = rate * self.clients.slowest / 2;
        if self.clients.slowest < LATE { 0 } else { u128::from(self.clients.all.len() as u64 * late) }
    }
}
