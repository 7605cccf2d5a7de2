//! Tells when Redis answers slowly, and when that is over.

use std::time::Duration;

/// A heartbeat that takes longer is slow. Takes of workers have 250 ms unless told otherwise, and wait for Redis as
/// long as a heartbeat does.
pub(crate) const SLOW: Duration = Duration::from_millis(100);
/// The time that all heartbeats must be slow, or all quick, before that is said.
const LASTING: Duration = Duration::from_secs(1);

/// The latency of Redis by its answers to heartbeats.
#[derive(Debug, Default)]
pub(super) struct Latency {
    slow: bool,
    /// Since when all answers differ from `slow`.
    differs_since: Option<Duration>,
}

// === impl Latency ===

impl Latency {
    /// Whether Redis is slow.
    pub(super) fn is_slow(&self) -> bool {
        self.slow
    }

    /// Records an answer at `now` that took `latency`. Returns whether Redis is slow if that has changed.
    pub(super) fn observe(&mut self, latency: Duration, now: Duration) -> Option<bool> {
        if (latency > SLOW) == self.slow {
            self.differs_since = None;
            return None;
        }
        let since = *self.differs_since.get_or_insert(now.saturating_sub(latency));
        if now.saturating_sub(since) < LASTING {
            return None;
        }
        *self = Self { slow: !self.slow, differs_since: None };
        Some(self.slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes that a latency said, each with its time in ms.
    fn said(answers: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, bool)> {
        let mut latency = Latency::default();
        let mut observed = |(now, took): (u64, u64)| {
            let changed = latency.observe(Duration::from_millis(took), Duration::from_millis(now));
            changed.map(|slow| (now, slow))
        };
        answers.into_iter().filter_map(&mut observed).collect()
    }

    #[test]
    fn slow_answers_are_said_once_and_so_is_their_end() {
        let slow = (1..=50).map(|i| (i * 200, 150));
        let quick = (1..=50).map(|i| (10_000 + i * 50, 2));
        // The first slow answer was sent at 50 ms.
        assert_eq!(said(slow.chain(quick)), [(1_200, true), (11_050, false)]);
    }

    #[test]
    fn a_quick_answer_among_slow_ones_begins_the_time_anew() {
        let answers = (1..=100).map(|i| (i * 200, if i % 5 == 0 { 99 } else { 101 }));
        assert_eq!(said(answers), []);
    }

    #[test]
    fn one_answer_that_takes_a_second_is_slow() {
        assert_eq!(said([(2_000, 1_000)]), [(2_000, true)]);
    }
}
