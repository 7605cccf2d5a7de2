//! The cost of a bucket, measured here.

use serde::{Deserialize, Serialize};

use crate::{
    cost::{self, Pace},
    fixture::Fixture,
    limiter::Limiter,
    report::tell,
    rule::Rule,
};

/// Allowed takes per bucket and second at which is measured.
const RATES: [u32; 3] = [1, 10, 100];
/// Takes a second that all buckets together are asked, at most: what two CPUs can do on time.
const MOST_PER_SECOND: u32 = 8_000;
/// Buckets, at most.
const MOST_KEYS: u32 = 200;

/// The cost of a bucket in CPU µs of Redis a second, over the takes it is asked for in a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Points of each limiter, by rising rates.
    pub curves: Vec<(Limiter, Vec<(f64, f64)>)>,
}

// === impl Prices ===

impl Prices {
    /// Measures what `limiters` cost.
    ///
    /// # Errors
    /// When a worker or Redis fails.
    pub async fn measure(fixture: &mut Fixture, limiters: &[Limiter]) -> anyhow::Result<Self> {
        let mut curves = Vec::new();
        for &limiter in limiters {
            let mut points = Vec::new();
            for rate in RATES {
                tell(&format!("price: {} at {rate}/s a bucket", limiter.name()));
                // Asked a little less than it allows, at random: sometimes it is full, and hardly ever empty.
                let rule =
                    Rule { capacity: u64::from(rate) * 5, tokens: u64::from(rate) * 5, micros: 4_000_000 };
                let keys = (MOST_PER_SECOND / rate).clamp(1, MOST_KEYS);
                let pace = Pace { saturate: 0.0, point: 1.0, keys };
                let (_, cpu) = cost::price(fixture, limiter, rule, f64::from(rate), &pace).await?;
                points.push((f64::from(rate), cpu));
            }
            curves.push((limiter, points));
        }
        Ok(Self { curves })
    }

    /// CPU µs a second for a bucket of `limiter` that is asked `rate` times a second; `None` where it was not measured.
    pub fn of(&self, limiter: Limiter, rate: f64) -> Option<f64> {
        let (_, points) = self.curves.iter().find(|(other, _)| *other == limiter)?;
        let (first, last) = (points.first()?, points.last()?);
        // Outside of what was measured, a take costs what the nearest one does.
        if rate <= first.0 {
            return Some(first.1 * rate / first.0);
        }
        if rate >= last.0 {
            return Some(last.1 * rate / last.0);
        }
        points.windows(2).find(|pair| rate <= pair[1].0).map(|pair| {
            let share = (rate / pair[0].0).ln() / (pair[1].0 / pair[0].0).ln();
            pair[0].1 * (pair[1].1 / pair[0].1).powf(share)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_lie_between_those_measured() {
        let curves = vec![(Limiter::TokenBucket, vec![(1.0, 10.0), (10.0, 100.0), (100.0, 200.0)])];
        let prices = Prices { curves };
        let of = |rate| prices.of(Limiter::TokenBucket, rate).unwrap();
        assert!((of(0.1) - 1.0).abs() < 1e-9 && (of(200.0) - 400.0).abs() < 1e-9);
        assert!((of(2.0) - 20.0).abs() < 1e-9 && (100.0..200.0).contains(&of(30.0)));
        assert_eq!(prices.of(Limiter::Gcra, 1.0), None);
    }
}
