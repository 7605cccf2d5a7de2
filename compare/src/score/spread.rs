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
