//! The smallest limit that denies no more of a trace than asked.

use topup_lab::fine;
use topup_wire::limit::{Capacity, MAX_TOKENS, Rate};

use super::{Advice, Change, Usage};
use crate::{replay::Trace, rule::Rule};

/// A limit, and the share of a trace's takes that it denies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fitted {
    capacity: u64,
    rate: Rate,
    denied: f64,
}

// === impl Advice ===

impl Advice {
    /// Adds the smallest capacity and rate that deny at most `share` of the takes of `trace`. The ratio of the two stays:
    /// a bucket fills in the same time as with `capacity` and `rate`.
    pub fn fit(&mut self, trace: &Trace, capacity: Capacity, rate: Rate, share: f64) {
        let Some(fitted) = fit(trace, capacity.get(), rate, share) else {
            let percent = fine(100.0 * share);
            return self
                .says
                .push(format!("No limit that fills in the same time denies {percent} % or less."));
        };
        let Fitted { capacity: most, rate: speed, denied } = fitted;
        self.says.push(format!(
            "capacity = {most} and rate = \"{speed}\" are the least that deny {} % of the trace or less: {:.2} %.",
            fine(100.0 * share),
            100.0 * denied
        ));
        if (most, speed) != (capacity.get(), rate) {
            self.changes.push(Change { key: "capacity", value: most.to_string() });
            self.changes.push(Change { key: "rate", value: format!("\"{speed}\"") });
        }
    }
}

fn fit(trace: &Trace, capacity: u64, rate: Rate, share: f64) -> Option<Fitted> {
    let at = |most: u64| {
        let tokens = (u128::from(rate.tokens()) * u128::from(most)).div_ceil(u128::from(capacity));
        let rate = Rate::new(u64::try_from(tokens).ok()?, rate.interval()).ok()?;
        let denied = Usage::of(trace, &Rule::new(most, rate)).denied;
        Some(Fitted { capacity: most, rate, denied })
    };
    let (mut low, mut high) = (0, 1);
    let mut best = loop {
        let fitted = at(high)?;
        if fitted.denied <= share {
            break fitted;
        }
        (low, high) = (high, high.checked_mul(2).filter(|most| *most <= MAX_TOKENS)?);
    };
    // `low` denies too much, and `best` does not.
    while best.capacity - low > 1 {
        let middle = low + (best.capacity - low) / 2;
        match at(middle)? {
            fitted if fitted.denied <= share => best = fitted,
            _ => low = middle,
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One key that takes `burst` tokens at once every 10 s.
    fn bursts(burst: u64) -> Trace {
        let lines = (0..100).flat_map(|turn| (0..burst).map(move |_| format!("{},a\n", turn * 10)));
        Trace::parse(&lines.collect::<String>(), "trace").unwrap()
    }

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn a_limit_grows_or_shrinks_to_what_is_taken() {
        // A bucket of 5 fills in 5 s, well before the next burst.
        for (capacity, per_second) in [(5, "1/s"), (50, "10/s"), (1, "1/s"), (500, "100/s")] {
            let fitted = fit(&bursts(7), capacity, rate(per_second), 0.0).unwrap();
            assert_eq!((fitted.capacity, fitted.denied), (7, 0.0), "{capacity}");
        }
        // Two of seven takes may be denied.
        let fitted = fit(&bursts(7), 5, rate("1/s"), 2.0 / 7.0).unwrap();
        assert_eq!((fitted.capacity, fitted.rate), (5, rate("1/s")));
    }

    #[test]
    fn advice_changes_the_config_only_if_another_limit_fits() {
        let advice = |capacity: u64| {
            let mut advice = Advice::default();
            advice.fit(&bursts(7), Capacity::new(capacity).unwrap(), rate("7/s"), 0.0);
            advice.changes.into_iter().map(|change| (change.key, change.value)).collect::<Vec<_>>()
        };
        assert_eq!(advice(7), []);
        assert_eq!(advice(14), [("capacity", "7".to_owned()), ("rate", "\"4/s\"".to_owned())]);
    }
}
