//! The load on a limit.

use serde::{Deserialize, Serialize};
use topup_lab::clock::{Micros, SECOND};
use topup_lab::{count, fine};

use super::DAY;
use crate::{
    oracle::{Ideal, Oracle},
    replay::Trace,
    rule::Rule,
};

/// The load on a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Allowed takes per active bucket and second. Denied ones are answered from memory, whatever the algorithm.
    pub rate: f64,
    /// Seconds of a day in which buckets are active, of all buckets together: from a take until it is full again.
    pub active_per_day: f64,
    /// The share of takes that are denied.
    pub denied: f64,
    /// Keys that ask.
    pub keys: usize,
}

// === impl Usage ===

impl Usage {
    /// One bucket, all day, for all that it gives.
    pub fn at_its_rate(rule: &Rule) -> Self {
        Self { rate: rule.rate(), active_per_day: DAY, denied: 0.0, keys: 1 }
    }

    /// As in `trace`.
    pub fn of(trace: &Trace, rule: &Rule) -> Self {
        let mut of_key: Vec<Vec<(Micros, u64)>> = vec![Vec::new(); trace.keys.len()];
        for entry in &trace.entries {
            of_key[entry.key as usize].push((entry.at, u64::from(entry.count)));
        }
        let oracle = Oracle { ideal: Ideal::Bucket, rule: *rule, offset: 0, change: None };
        let (mut allowed, mut active) = (0_u64, 0_u64);
        for asked in &of_key {
            // Until when the bucket is not full, and so active.
            let mut full = 0;
            for ((at, tokens), _) in
                asked.iter().zip(oracle.path(asked.iter().copied())).filter(|(_, allowed)| *allowed)
            {
                let longer = (*tokens as f64 * rule.micros as f64 / rule.tokens as f64) as Micros;
                active += longer;
                full = full.max(*at) + longer;
                allowed += 1;
            }
        }
        let days = trace.length().max(SECOND) as f64 / SECOND as f64 / DAY;
        let seconds = (active as f64 / SECOND as f64).max(f64::EPSILON);
        Self {
            rate: allowed as f64 / seconds,
            active_per_day: seconds / days,
            denied: 1.0 - allowed as f64 / trace.entries.len().max(1) as f64,
            keys: trace.keys.len(),
        }
    }

    /// In words.
    pub(super) fn says(&self, keyed: bool, traced: bool) -> String {
        if !traced {
            let each = if keyed { "each bucket" } else { "it" };
            return format!(
                "For want of a trace, as if {each} were asked for {} tokens a second all day.",
                fine(self.rate)
            );
        }
        format!(
            "In the trace, {} keys are active for {} s a day in all, with {} allowed takes a second each; {:.1} % are denied.",
            count(self.keys as f64),
            count(self.active_per_day),
            fine(self.rate),
            100.0 * self.denied
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_active_until_it_is_full_again() {
        // Two takes of two keys at 1/s: each is full again two seconds later, of the ten that the trace is long.
        let trace = Trace::parse("0,a\n0,a\n5,b\n10,b", "t.csv").unwrap();
        let usage = Usage::of(&trace, &Rule::per_second(2, 1));
        assert!((usage.active_per_day - 4.0 * 8_640.0).abs() < 1e-6, "{usage:?}");
        assert!((usage.rate - 1.0).abs() < 1e-9 && usage.denied == 0.0 && usage.keys == 2);
        let denied = Trace::parse("0,a\n0,a\n0,a\n0,a\n10,b", "t.csv").unwrap();
        assert!((Usage::of(&denied, &Rule::per_second(2, 1)).denied - 0.4).abs() < 1e-9);
    }
}
