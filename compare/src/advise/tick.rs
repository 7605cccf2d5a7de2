//! Which tick suits a limit.

use std::time::Duration;

use topup_lab::clock::Micros;
use topup_lab::fine;

use crate::rule::Rule;

/// The share of a capacity that a window may get too much near full: what comes in a tick.
const SHARE: u64 = 10;
/// Usual ticks of a config, in ms.
const WRITTEN: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// The longest tick in which no more than a tenth of a capacity comes.
pub fn suitable(rule: &Rule) -> Duration {
    let most: Micros = rule.window() / SHARE;
    let fits = WRITTEN.iter().rev().find(|millis| **millis * 1_000 <= most);
    Duration::from_millis(*fits.unwrap_or(&WRITTEN[0]))
}

/// The longest tick that suits all of `rules`; `None` when there are none.
pub fn coarsest<'a>(rules: impl Iterator<Item = &'a Rule>) -> Option<Duration> {
    rules.map(suitable).min()
}

/// Advice on a limit that is topped up every `tick`, if there is any.
pub(super) fn says(rule: &Rule, tick: Duration, catch_up: bool) -> Option<String> {
    let credit = rule.credit(tick.as_micros() as Micros);
    let capacity = rule.capacity as f64;
    if !catch_up && credit > capacity {
        return Some(format!(
            "It never reaches its rate: {} tokens come in a tick of {tick:?}, a bucket holds {capacity}. Remove catch_up = \
             false, or shorten the tick.",
            fine(credit)
        ));
    }
    (suitable(rule) < tick).then(|| {
        format!(
            "{} tokens come in a tick of {tick:?}, {:.0} % of a bucket: near full, a window may get as many too much. {:?} would \
             keep that within {SHARE} %.",
            fine(credit),
            100.0 * credit / capacity,
            suitable(rule)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_brings_a_tenth_of_a_bucket_at_most() {
        for (capacity, rate, millis) in
            [(100, 50, 200), (10, 1, 1_000), (5, 200, 2), (1, 1_000_000, 1), (1_000, 1, 5_000)]
        {
            assert_eq!(suitable(&Rule::per_second(capacity, rate)), Duration::from_millis(millis));
        }
        let rules = [Rule::per_second(100, 50), Rule::per_second(5, 200)];
        assert_eq!(coarsest(rules.iter()), Some(Duration::from_millis(2)));
    }
}
