//! The record of all reports.

use std::collections::VecDeque;

use topup_lab::clock::{Micros, SECOND};

use crate::{
    law::Take,
    plan::{Limit, buckets},
    protocol::{Answer, BucketNumber, Report},
};

/// Reports reach the demo within this time. Rates are shown as of so long ago.
const REPORTED_WITHIN: Micros = 100_000;

/// All reports.
#[derive(Debug)]
pub(crate) struct Record {
    buckets: Vec<BucketRecord>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Denials without Redis.
    pub(crate) from_memory: u64,
    /// Reasons of takes without an answer.
    pub(crate) failures: Vec<String>,
}

/// The reports of one bucket.
#[derive(Clone, Debug, Default)]
struct BucketRecord {
    takes: Vec<Take>,
    denied: u64,
    /// Instants of the answers of the last second, and whether each was allowed.
    recent: VecDeque<(Micros, bool)>,
}

/// A limit in the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastSecond {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

// === impl Record ===

impl Record {
    pub(crate) fn new() -> Self {
        let buckets = vec![BucketRecord::default(); buckets().len()];
        Self { buckets, allowed: 0, denied: 0, from_memory: 0, failures: Vec::new() }
    }

    /// Adds a report.
    pub(crate) fn add(&mut self, report: Report) {
        let Report { bucket, sent, received, answer } = report;
        let Some(bucket) = self.buckets.get_mut(bucket) else { return };
        let allowed = match answer {
            Answer::Allowed => true,
            Answer::Denied { from_memory, .. } => {
                self.from_memory += u64::from(from_memory);
                false
            }
            Answer::Failed(why) => {
                return self.failures.push(why);
            }
        };
        bucket.recent.push_back((received, allowed));
        if allowed {
            self.allowed += 1;
            bucket.takes.push(Take { sent, received });
        } else {
            self.denied += 1;
            bucket.denied += 1;
        }
    }

    /// The allowed takes of a bucket.
    pub(crate) fn takes(&self, bucket: BucketNumber) -> &[Take] {
        &self.buckets[bucket].takes
    }

    /// The number of decisions about a bucket.
    pub(crate) fn asked(&self, bucket: BucketNumber) -> u64 {
        self.buckets[bucket].takes.len() as u64 + self.buckets[bucket].denied
    }

    /// `limit` in the second before `now`.
    pub(crate) fn last_second(&mut self, limit: &Limit, now: Micros) -> LastSecond {
        let until = now.saturating_sub(REPORTED_WITHIN);
        let from = until.saturating_sub(SECOND);
        let mut last = LastSecond::default();
        for bucket in limit.buckets() {
            let bucket = &mut self.buckets[bucket];
            // Workers report in turns, so older answers may be left behind newer ones.
            while bucket.recent.front().is_some_and(|(at, _)| *at < from) {
                bucket.recent.pop_front();
            }
            for (_, allowed) in bucket.recent.iter().filter(|(at, _)| (from..until).contains(at)) {
                last.allowed += u64::from(*allowed);
                last.denied += u64::from(!allowed);
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LIMITS;

    #[test]
    fn the_last_second_is_counted() {
        let mut record = Record::new();
        let mut add =
            |received, answer| record.add(Report { bucket: 0, sent: received - 10, received, answer });
        add(SECOND, Answer::Allowed);
        add(3 * SECOND, Answer::Allowed);
        add(3 * SECOND - 5, Answer::Allowed);
        add(3 * SECOND - 9, Answer::Denied { retry_after: 1, from_memory: true });
        add(3 * SECOND - 9, Answer::Failed("away".into()));

        let api = &LIMITS[0];
        let last = record.last_second(api, 3 * SECOND + 200_000);
        assert_eq!(last, LastSecond { allowed: 2, denied: 1 });
        assert_eq!(record.last_second(api, 9 * SECOND), LastSecond::default());
        assert_eq!((record.allowed, record.denied, record.from_memory, record.failures.len()), (3, 1, 1, 1));
        assert_eq!((record.takes(0).len(), record.asked(0)), (3, 4));
    }
}
