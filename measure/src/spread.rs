//! Several figures as few.

use serde::{Deserialize, Serialize};

/// The smallest, the middle and the largest of several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

/// What half, 99 of 100 and 999 of 1,000 figures are at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half of them.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
}

// === impl Spread ===

impl Spread {
    /// Of at least one figure.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(figures);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { min, median: f64::midpoint(low, high), max })
    }

    /// `median (min–max)`, or the one figure there is; `few` writes each.
    pub fn text(self, few: impl Fn(f64) -> String) -> String {
        let Self { min, median, max } = self;
        if min == max { few(median) } else { format!("{} ({}–{})", few(median), few(min), few(max)) }
    }
}

// === impl Quantiles ===

impl Quantiles {
    /// Of at least one figure.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(figures);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, last + 1) - 1];
        Some(Self { p50: at(0.5), p99: at(0.99), p999: at(0.999) })
    }
}

fn sorted(figures: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, f64::NAN, 1.0]), Some(Spread { min: 1.0, median: 2.5, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn one_round_has_no_spread_to_show() {
        let text =
            |figures: &[f64]| Spread::of(figures.iter().copied()).map(|spread| spread.text(crate::short));
        assert_eq!(text(&[0.5]).as_deref(), Some("0.50"));
        assert_eq!(text(&[0.5, 1.0, 20.0]).as_deref(), Some("1.00 (0.50–20.0)"));
    }

    #[test]
    fn no_more_than_its_share_lies_above_a_quantile() {
        let quantiles = Quantiles::of((1..=1_000).map(f64::from));
        assert_eq!(quantiles, Some(Quantiles { p50: 500.0, p99: 990.0, p999: 999.0 }));
    }
}
