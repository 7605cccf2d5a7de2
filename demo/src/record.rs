//! The record of all reports.

use std::collections::VecDeque;

use topup_lab::clock::{Micros, SECOND};

use crate::{
    law::Take,
    plan::{BucketNumber, Limit, buckets},
    protocol::{Answer, Report},
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
    pub(crate) failed: u64,
    pub(crate) last_failure: Option<String>,
}

/// The reports of one bucket.
#[derive(Clone, Debug, Default)]
struct BucketRecord {
    takes: Vec<Take>,
    /// Tokens left, by the last report.
    tokens: Option<(Micros, u64)>,
    denied: u64,
    /// Instants of the answers of the last second, and whether each was allowed.
    recent: VecDeque<(Micros, bool)>,
}

/// A limit in the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastSecond {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Tokens left in all buckets together; `None` until each was asked.
    pub(crate) tokens: Option<u64>,
}

// === impl Record ===

impl Record {
    pub(crate) fn new() -> Self {
        let buckets = vec![BucketRecord::default(); buckets().len()];
        Self { buckets, allowed: 0, denied: 0, from_memory: 0, failed: 0, last_failure: None }
    }

    /// Adds a report.
    pub(crate) fn add(&mut self, report: Report) {
        let Report { bucket, sent, received, answer } = report;
        let Some(bucket) = self.buckets.get_mut(bucket) else { return };
        let (allowed, remaining) = match answer {
            Answer::Allowed { remaining } => (true, remaining),
            Answer::Denied { remaining, from_memory, .. } => {
                self.from_memory += u64::from(from_memory);
                (false, remaining)
            }
            Answer::Failed(why) => {
                self.failed += 1;
                self.last_failure = Some(why);
                return;
            }
        };
        self.allowed += u64::from(allowed);
        self.denied += u64::from(!allowed);
        bucket.add(Take { sent, received }, allowed, remaining);
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
        let mut last = LastSecond { tokens: Some(0), ..LastSecond::default() };
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
            last.tokens = last.tokens.zip(bucket.tokens).map(|(sum, (_, tokens))| sum + tokens);
        }
        last
    }
}

// === impl BucketRecord ===

impl BucketRecord {
    fn add(&mut self, take: Take, allowed: bool, remaining: u64) {
        if allowed {
            self.takes.push(take);
        } else {
            self.denied += 1;
        }
        // Workers report in turns; the latest answer counts.
        if self.tokens.is_none_or(|(at, _)| at <= take.received) {
            self.tokens = Some((take.received, remaining));
        }
        self.recent.push_back((take.received, allowed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LIMITS;

    #[test]
    fn the_last_second_is_counted_and_the_latest_answer_shown() {
        let mut record = Record::new();
        let mut add =
            |received, answer| record.add(Report { bucket: 0, sent: received - 10, received, answer });
        add(SECOND, Answer::Allowed { remaining: 5 });
        add(3 * SECOND, Answer::Allowed { remaining: 2 });
        add(3 * SECOND - 5, Answer::Allowed { remaining: 3 });
        add(3 * SECOND - 9, Answer::Denied { remaining: 4, retry_after: 1, from_memory: true });
        add(3 * SECOND - 9, Answer::Failed("away".into()));

        let api = &LIMITS[0];
        let last = record.last_second(api, 3 * SECOND + 200_000);
        assert_eq!(last, LastSecond { allowed: 2, denied: 1, tokens: Some(2) });
        assert_eq!(
            record.last_second(api, 9 * SECOND),
            LastSecond { tokens: Some(2), ..LastSecond::default() }
        );
        assert_eq!((record.allowed, record.denied, record.from_memory, record.failed), (3, 1, 1, 1));
        assert_eq!((record.takes(0).len(), record.asked(0)), (3, 4));
    }
}
