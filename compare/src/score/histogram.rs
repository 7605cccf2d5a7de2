//! A histogram of the excess of all windows.

use serde::{Deserialize, Serialize};

/// The upper ends of the bins, in tokens; one more bin takes what is above.
pub const BINS: [f64; 6] = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0];

/// For each admitted take, the worst window that ends with it: how many of these lie in each bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Takes per bin.
    pub bins: [u64; BINS.len() + 1],
}

// === impl Histogram ===

impl Histogram {
    /// Counts a window with so many tokens above capacity and rate.
    pub fn count(&mut self, tokens: f64) {
        let bin = BINS.iter().position(|end| tokens <= *end).unwrap_or(BINS.len());
        self.bins[bin] += 1;
    }

    /// The bounds of a bin, as text.
    pub fn label(bin: usize) -> String {
        match (bin.checked_sub(1).map(|before| BINS[before]), BINS.get(bin)) {
            (None, _) => "within".to_owned(),
            (Some(from), Some(until)) => format!("{from}–{until}"),
            (Some(from), None) => format!("> {from}"),
        }
    }
}
