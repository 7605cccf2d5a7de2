//! The takes and the lag of the last minutes, so that a page that is opened has a past to show.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::Serialize;
use topup_wire::limit::LimitName;

/// The time between two samples.
pub(super) const SAMPLE: Duration = Duration::from_secs(5);
/// Samples that are kept: ten minutes.
const KEPT: usize = 120;

/// Allowed and denied takes per second.
pub(super) type Rates = [f32; 2];

/// One look at all limits.
#[derive(Clone, Debug, Default)]
struct Sample {
    /// The lag of this daemon in ms.
    lag_ms: f32,
    /// In order of names; empty if Redis told nothing.
    limits: Vec<(LimitName, Rates)>,
}

/// The last samples, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Sample>);

/// The samples as the page reads them: of each limit one pair for each sample, or none where it was not known.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Past<'h> {
    step_s: u64,
    lag_ms: Vec<f32>,
    limits: BTreeMap<&'h str, Vec<Option<Rates>>>,
}

// === impl History ===

impl History {
    /// Adds a sample. The oldest one goes if there are enough.
    pub(super) fn add(&mut self, lag_ms: f64, mut limits: Vec<(LimitName, Rates)>) {
        limits.sort_unstable_by_key(|(name, _)| *name);
        limits.shrink_to_fit();
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Sample { lag_ms: tenths(lag_ms), limits });
    }

    pub(super) fn past(&self) -> Past<'_> {
        let mut limits: BTreeMap<&str, Vec<Option<Rates>>> = BTreeMap::new();
        for (number, sample) in self.0.iter().enumerate() {
            for (name, rates) in &sample.limits {
                let past = limits.entry(name.as_str()).or_insert_with(|| vec![None; self.0.len()]);
                past[number] = Some(*rates);
            }
        }
        let lag_ms = self.0.iter().map(|sample| sample.lag_ms).collect();
        Past { step_s: SAMPLE.as_secs(), lag_ms, limits }
    }
}

/// A number for a chart, which needs few digits.
pub(super) fn tenths(number: f64) -> f32 {
    ((number * 10.0).round() / 10.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_has_a_place_for_each_sample_and_is_bounded() {
        let [api, user] = ["api", "user"].map(|name| name.parse::<LimitName>().unwrap());
        let mut history = History::default();
        history.add(0.04, vec![(user, [1.0, 0.0]), (api, [2.5, 1.0])]);
        history.add(12.34, Vec::new());
        history.add(1.0, vec![(api, [3.0, 0.0])]);
        let past = history.past();
        assert_eq!(past.lag_ms, [0.0, 12.3, 1.0]);
        assert_eq!(past.limits["api"], [Some([2.5, 1.0]), None, Some([3.0, 0.0])]);
        assert_eq!(past.limits["user"], [Some([1.0, 0.0]), None, None]);
        for _ in 0..3 * KEPT {
            history.add(0.0, vec![(api, [0.0; 2])]);
        }
        let past = history.past();
        assert_eq!((past.lag_ms.len(), past.limits.len(), past.limits["api"].len()), (KEPT, 1, KEPT));
    }
}
