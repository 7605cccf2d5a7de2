//! Everything the workers have reported.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    clock::{Micros, SECOND},
    law::Take,
    plan::Limit,
    protocol::{BucketId, Decided, Outcome, Report},
};

/// Reports reach the demo within this; rates are shown as of so long ago, when all of them are there.
const REPORTED_WITHIN: Micros = 100_000;

/// All reports.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    buckets: BTreeMap<BucketId, BucketTally>,
    pub(crate) decisions: u64,
    pub(crate) denied: u64,
    /// Denials for which Redis was not asked.
    pub(crate) remembered: u64,
    pub(crate) failures: u64,
    pub(crate) last_failure: Option<String>,
}

/// The reports of one bucket.
#[derive(Debug, Default)]
struct BucketTally {
    takes: Vec<Take>,
    /// Tokens left, by the last report.
    tokens: Option<(Micros, u64)>,
    denied: u64,
    /// Its answers of late, and when they came.
    recent: VecDeque<(Micros, Outcome)>,
}

/// A limit in the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lately {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Denials for which Redis was not asked.
    pub(crate) remembered: u64,
    /// Tokens left, all buckets together; `None` until each was asked.
    pub(crate) tokens: Option<u64>,
}

// === impl Tally ===

impl Tally {
    /// Takes note of a report.
    pub(crate) fn note(&mut self, report: Report) {
        match report {
            Report::Ready => {}
            Report::Failed(reason) => {
                self.failures += 1;
                self.last_failure = Some(reason);
            }
            Report::Took(bucket, decided) => {
                self.decisions += 1;
                if let Outcome::Denied { from_memory, .. } = decided.outcome {
                    self.denied += 1;
                    self.remembered += u64::from(from_memory);
                }
                self.buckets.entry(bucket).or_default().note(&decided);
            }
        }
    }

    /// The allowed takes of a bucket.
    pub(crate) fn takes(&self, bucket: &BucketId) -> &[Take] {
        self.buckets.get(bucket).map_or(&[], |bucket| &bucket.takes)
    }

    /// How often a bucket was asked.
    pub(crate) fn asked(&self, bucket: &BucketId) -> u64 {
        self.buckets.get(bucket).map_or(0, |bucket| bucket.takes.len() as u64 + bucket.denied)
    }

    /// How `limit` has fared in the second before `now`.
    pub(crate) fn lately(&mut self, limit: &Limit, now: Micros) -> Lately {
        let until = now.saturating_sub(REPORTED_WITHIN);
        let from = until.saturating_sub(SECOND);
        let mut lately = Lately { tokens: Some(0), ..Lately::default() };
        for id in limit.buckets() {
            let bucket = self.buckets.entry(id).or_default();
            bucket.forget(from);
            for (_, outcome) in bucket.recent.iter().filter(|(at, _)| (from..until).contains(at)) {
                match outcome {
                    Outcome::Allowed => lately.allowed += 1,
                    Outcome::Denied { from_memory, .. } => {
                        lately.denied += 1;
                        lately.remembered += u64::from(*from_memory);
                    }
                }
            }
            lately.tokens = lately.tokens.zip(bucket.tokens).map(|(sum, (_, tokens))| sum + tokens);
        }
        lately
    }
}

// === impl BucketTally ===

impl BucketTally {
    fn note(&mut self, decided: &Decided) {
        let Decided { sent, received, remaining, outcome } = *decided;
        match outcome {
            Outcome::Allowed => self.takes.push(Take { sent, received }),
            Outcome::Denied { .. } => self.denied += 1,
        }
        // Workers report in turns; the latest answer is the one that counts.
        if self.tokens.is_none_or(|(at, _)| at <= received) {
            self.tokens = Some((received, remaining));
        }
        self.recent.push_back((received, outcome));
    }

    /// Forgets what was before `from`, as far as it is at the front: workers report in turns, so not all of it is.
    fn forget(&mut self, from: Micros) {
        while self.recent.front().is_some_and(|(at, _)| *at < from) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: Limit = Limit { name: "api", keys: &[], capacity: 9, rate: 5, load: 3.0 };

    fn took(received: Micros, remaining: u64, outcome: Outcome) -> Report {
        let bucket = BucketId { limit: "api".into(), key: None };
        Report::Took(bucket, Decided { sent: received - 10, received, remaining, outcome })
    }

    #[test]
    fn the_last_second_is_counted_and_the_latest_answer_shown() {
        let mut tally = Tally::default();
        tally.note(took(SECOND, 5, Outcome::Allowed));
        tally.note(took(3 * SECOND, 2, Outcome::Allowed));
        tally.note(took(3 * SECOND - 5, 3, Outcome::Allowed));
        tally.note(took(3 * SECOND - 9, 4, Outcome::Denied { retry_after: 1, from_memory: true }));
        tally.note(Report::Failed("away".into()));

        let lately = tally.lately(&API, 3 * SECOND + 200_000);
        assert_eq!(lately, Lately { allowed: 2, denied: 1, remembered: 1, tokens: Some(2) });
        assert_eq!(tally.lately(&API, 9 * SECOND), Lately { tokens: Some(2), ..Lately::default() });
        assert_eq!((tally.decisions, tally.denied, tally.remembered, tally.failures), (4, 1, 1, 1));
        let bucket = &API.buckets()[0];
        assert_eq!((tally.takes(bucket).len(), tally.asked(bucket)), (3, 4));
    }
}
