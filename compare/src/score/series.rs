//! Admitted against ideal over time.

use serde::{Deserialize, Serialize};

use super::Played;
use topup_lab::clock::{Micros, SECOND};

/// Points of a curve: enough for a plot the width of a screen.
const POINTS: u64 = 80;

/// Tokens admitted by each of evenly spaced instants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Between two instants, in s.
    pub step: f64,
    /// Tokens admitted by the end of each step.
    pub admitted: Vec<u64>,
    /// Tokens that a perfect limiter had admitted by then.
    pub ideal: Vec<u64>,
}

// === impl Series ===

impl Series {
    pub(super) fn of(
        played: &Played,
        admitted: impl Iterator<Item = (Micros, u64)>,
        ideal: &[(Micros, u64)],
    ) -> Self {
        let step = (played.until.saturating_sub(played.from) / POINTS).max(1);
        let curve = |points: &mut dyn Iterator<Item = (Micros, u64)>| {
            let mut sums = vec![0; POINTS as usize];
            for (at, count) in points {
                let index = (at.saturating_sub(played.from) / step).min(POINTS - 1);
                sums[index as usize] += count;
            }
            let mut sum = 0;
            for point in &mut sums {
                sum += *point;
                *point = sum;
            }
            sums
        };
        Self {
            step: step as f64 / SECOND as f64,
            admitted: curve(&mut { admitted }),
            ideal: curve(&mut ideal.iter().copied()),
        }
    }
}
