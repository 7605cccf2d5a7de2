//! From how many takes per bucket and second on is a bucket that is topped up cheaper than one refilled by each take?

use serde::{Deserialize, Serialize};
use topup_lab::clock::SECOND;

use super::{Pace, commands};
use crate::{
    fixture::Fixture,
    limiter::{Limiter, LimiterUnderTest},
    rule::Rule,
    traffic::{Fault, Keys, Pattern, Traffic},
};

/// The limiters: the scheduled form, the same limit refilled lazily, and the usual lazy script.
const LIMITERS: [Limiter; 3] = [Limiter::TokenBucket, Limiter::LazyTokenBucket, Limiter::LazyLua];
/// The rule of each bucket. Some of the rates below are under it, some over.
const RULE: Rule = Rule::per_second(20, 10);
/// Takes per bucket and second.
const RATES: [f64; 8] = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];
/// The same, of a quick run.
const FEW: [f64; 3] = [1.0, 10.0, 40.0];

/// Cost over load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// Buckets.
    pub keys: u32,
    /// One line for each limiter.
    pub curves: Vec<Curve>,
    /// Takes per bucket and second beyond which the scheduled form is cheaper than topup's lazy one. `None` if it is not at
    /// any measured rate.
    pub at: Option<f64>,
    /// The same against the usual lazy form.
    pub at_usual: Option<f64>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Whose.
    pub limiter: Limiter,
    /// Takes per bucket and second, and what a bucket costs Redis in a second: µs in commands, and CPU µs of the whole
    /// server.
    pub points: Vec<(f64, f64, f64)>,
}

/// Measures all points.
///
/// # Errors
/// When a worker or Redis fails.
pub async fn measure(
    fixture: &mut Fixture,
    pace: &Pace,
    quick: bool,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<Crossover> {
    let rates: &[f64] = if quick { &FEW } else { &RATES };
    let mut curves: Vec<Curve> =
        LIMITERS.iter().map(|limiter| Curve { limiter: *limiter, points: Vec::new() }).collect();
    for &rate in rates {
        for curve in &mut curves {
            tell(&format!("crossover: {} at {rate}/s a bucket", curve.limiter.name()));
            let (command, cpu) = price(fixture, curve.limiter, RULE, rate, pace).await?;
            curve.points.push((rate, command, cpu));
        }
    }
    let at = crossing(&curves[0].points, &curves[1].points);
    let at_usual = crossing(&curves[0].points, &curves[2].points);
    Ok(Crossover { keys: pace.keys, curves, at, at_usual })
}

/// Costs of a bucket of `limiter` under `rule` that is asked `rate` times a second. The costs of a second are µs in commands,
/// and CPU µs of the whole server.
///
/// # Errors
/// When a worker or Redis fails.
pub async fn price(
    fixture: &mut Fixture,
    limiter: Limiter,
    rule: Rule,
    rate: f64,
    pace: &Pace,
) -> anyhow::Result<(f64, f64)> {
    let load = rate * f64::from(pace.keys) / rule.rate();
    let traffic = Traffic {
        name: "crossover".to_owned(),
        says: String::new(),
        rule,
        keys: Keys::Even(pace.keys),
        pattern: Pattern::Poisson(load),
        most: 1,
        time: (pace.point * SECOND as f64) as u64,
        skewed: false,
        workers: None,
        fault: Fault::None,
        quick: true,
    };
    let under_test = LimiterUnderTest::new(limiter, rule, "crossover");
    let (_, counters) = fixture.play_metered(&traffic, under_test).await?;
    let (_, micros) = counters.of(commands(limiter));
    let each = f64::from(pace.keys) * pace.point;
    Ok((micros / each, counters.cpu / each))
}

/// Where the first line falls below the second for good, between two points in proportion.
fn crossing(scheduled: &[(f64, f64, f64)], lazy: &[(f64, f64, f64)]) -> Option<f64> {
    let over = |index: usize| scheduled[index].2 - lazy[index].2;
    let last = scheduled.len().checked_sub(1)?;
    if over(last) >= 0.0 {
        return None;
    }
    let Some(before) = (0..last).rev().find(|&index| over(index) > 0.0) else { return Some(scheduled[0].0) };
    let (from, until) = (scheduled[before].0, scheduled[before + 1].0);
    let share = over(before) / (over(before) - over(before + 1));
    Some(from + (until - from) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_lies_where_the_difference_is_nothing() {
        let flat = [(1.0, 0.0, 5.0), (2.0, 0.0, 5.0), (4.0, 0.0, 5.0)];
        let steep = [(1.0, 0.0, 2.0), (2.0, 0.0, 4.0), (4.0, 0.0, 8.0)];
        assert!((crossing(&flat, &steep).unwrap() - 2.5).abs() < 1e-9);
        assert_eq!(crossing(&steep, &flat), None);
        assert_eq!(crossing(&[(1.0, 0.0, 1.0)], &[(1.0, 0.0, 2.0)]), Some(1.0));
    }
}
