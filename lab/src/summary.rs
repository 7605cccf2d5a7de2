//! Summary statistics.

use serde::{Deserialize, Serialize};

/// Minimum, median and maximum of several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

/// The bounds of half, of 99 of 100 and of 999 of 1,000 figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half of the figures are at most this.
    pub p50: f64,
    /// 99 of 100 figures are at most this.
    pub p99: f64,
    /// 999 of 1,000 figures are at most this.
    pub p999: f64,
}

// === impl Summary ===

impl Summary {
    /// Summarises `figures`; `None` of none. Infinities and NaN are left out.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(figures);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { min, median: f64::midpoint(low, high), max })
    }

    /// `median (min–max)`, or the median alone where all are equal; `few` writes each figure.
    pub fn text(self, few: impl Fn(f64) -> String) -> String {
        let Self { min, median, max } = self;
        if min == max { few(median) } else { format!("{} ({}–{})", few(median), few(min), few(max)) }
    }
}

// === impl Quantiles ===

impl Quantiles {
    /// Summarises `figures`; `None` of none. Infinities and NaN are left out.
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
        assert_eq!(Summary::of([3.0, 1.0, 2.0]), Some(Summary { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Summary::of([4.0, f64::NAN, 1.0]), Some(Summary { min: 1.0, median: 2.5, max: 4.0 }));
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn one_round_is_one_figure() {
        let text =
            |figures: &[f64]| Summary::of(figures.iter().copied()).map(|summary| summary.text(crate::short));
        assert_eq!(text(&[0.5]).as_deref(), Some("0.50"));
        assert_eq!(text(&[0.5, 1.0, 20.0]).as_deref(), Some("1.00 (0.50–20.0)"));
    }

    #[test]
    fn no_more_than_its_share_lies_above_a_quantile() {
        let quantiles = Quantiles::of((1..=1_000).map(f64::from));
        assert_eq!(quantiles, Some(Quantiles { p50: 500.0, p99: 990.0, p999: 999.0 }));
    }
}
