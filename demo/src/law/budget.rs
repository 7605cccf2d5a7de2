//! The tokens that a bucket may give over time.

use topup_lab::clock::{Micros, seconds};

/// Capacity and rates of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) capacity: u64,
    /// Tokens a second, each from its instant on; in order, the first from 0.
    rates: Vec<(Micros, u64)>,
}

// === impl Budget ===

impl Budget {
    pub(crate) fn new(capacity: u64, rate: u64) -> Self {
        Self { capacity, rates: vec![(0, rate)] }
    }

    /// The same, with another rate from `at` on.
    #[must_use]
    pub(crate) fn then(mut self, at: Micros, rate: u64) -> Self {
        self.rates.push((at, rate));
        self
    }

    /// Tokens that come from `from` to `until`.
    pub(crate) fn credit(&self, from: Micros, until: Micros) -> f64 {
        let ends = self.rates.iter().skip(1).map(|(at, _)| *at).chain([Micros::MAX]);
        let parts = self.rates.iter().zip(ends).map(|((begin, rate), end)| {
            seconds(until.min(end).saturating_sub(from.max(*begin))) * *rate as f64
        });
        parts.sum()
    }
}

#[cfg(test)]
mod tests {
    use topup_lab::clock::SECOND;

    use super::*;

    #[test]
    fn each_stretch_of_time_is_counted_at_its_own_rate() {
        let budget = Budget::new(1, 10).then(5 * SECOND, 100);
        assert_eq!(budget.credit(SECOND, 3 * SECOND), 20.0);
        assert_eq!(budget.credit(4 * SECOND, 6 * SECOND), 110.0);
        assert_eq!(budget.credit(6 * SECOND, 7 * SECOND), 100.0);
        assert_eq!(budget.credit(7 * SECOND, 7 * SECOND), 0.0);
    }
}
