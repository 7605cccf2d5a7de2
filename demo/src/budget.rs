//! What a limit's terms allow over time.

use crate::{
    clock::{Micros, SECOND},
    plan::{Limit, TICK},
};

/// The terms of one bucket while the demo ran.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) capacity: u64,
    /// From each of these instants on, so many tokens a second; in order, the first at 0.
    rates: Vec<(Micros, u64)>,
}

// === impl Budget ===

impl Budget {
    /// The budget of each bucket of `limit`.
    pub(crate) fn new(limit: &Limit) -> Self {
        Self { capacity: limit.capacity, rates: vec![(0, limit.rate)] }
    }

    /// The same, with another rate from `at` on.
    #[must_use]
    pub(crate) fn then(mut self, at: Micros, rate: u64) -> Self {
        self.rates.push((at, rate));
        self
    }

    /// Tokens that come between two instants.
    pub(crate) fn credit(&self, from: Micros, until: Micros) -> f64 {
        let ends = self.rates.iter().skip(1).map(|(at, _)| *at).chain([Micros::MAX]);
        let parts = self.rates.iter().zip(ends).map(|((begin, rate), end)| {
            let span = until.min(end).saturating_sub(from.max(*begin));
            span as f64 * *rate as f64
        });
        parts.sum::<f64>() / SECOND as f64
    }

    /// What comes in one tick, at the highest rate there has been by `until`.
    pub(crate) fn tick_credit(&self, until: Micros) -> f64 {
        let rates = self.rates.iter().filter(|(at, _)| *at <= until).map(|(_, rate)| *rate);
        rates.max().unwrap_or(0) as f64 * TICK as f64 / SECOND as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_of_time_is_counted_at_its_own_rate() {
        let limit = Limit { name: "a", keys: &[], capacity: 1, rate: 10, load: 3.0 };
        let budget = Budget::new(&limit).then(5 * SECOND, 100);
        assert_eq!(budget.credit(SECOND, 3 * SECOND), 20.0);
        assert_eq!(budget.credit(4 * SECOND, 6 * SECOND), 110.0);
        assert_eq!(budget.credit(6 * SECOND, 7 * SECOND), 100.0);
        assert_eq!(budget.credit(7 * SECOND, 7 * SECOND), 0.0);
        assert_eq!((budget.tick_credit(0), budget.tick_credit(9 * SECOND)), (1.0, 10.0));
    }
}
