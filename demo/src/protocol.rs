//! Messages between the demo and its workers, in lines of JSON: lists of orders one way, lists of reports the other.

use serde::{Deserialize, Serialize};
use topup_lab::clock::Micros;

/// A bucket, by its place in [`crate::plan::buckets`].
pub(crate) type BucketNumber = usize;

/// Ask a bucket at this pace from now on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) bucket: BucketNumber,
    pub(crate) per_second: f64,
    /// Part of a period to wait before the first take, so that the workers ask in turns.
    pub(crate) delay: f64,
}

/// A take of one token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) bucket: BucketNumber,
    /// Just before the client was asked. Redis decided at an instant from here to `received`.
    pub(crate) sent: Micros,
    /// Just after the client answered.
    pub(crate) received: Micros,
    pub(crate) answer: Answer,
}

/// The answer to a take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Allowed,
    Denied {
        /// Time until the take would be allowed.
        retry_after: Micros,
        /// Whether the worker answered without Redis.
        from_memory: bool,
    },
    /// No answer, and why.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for answer in [
            Answer::Allowed,
            Answer::Denied { retry_after: 7, from_memory: true },
            Answer::Failed("no answer within 250ms".into()),
        ] {
            let report = Report { bucket: 3, sent: 5, received: 9, answer };
            let text = serde_json::to_string(&report).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        }
    }
}
