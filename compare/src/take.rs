//! Takes and their answers.

use serde::{Deserialize, Serialize};

use topup_lab::clock::Micros;

/// A take. It was decided at an instant that only Redis knows, somewhere between `sent` and `received`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Row", from = "Row")]
pub struct Take {
    /// Whose bucket, as a number.
    pub bucket: u32,
    /// Tokens asked for.
    pub count: u32,
    /// Just before the limiter was asked.
    pub sent: Micros,
    /// Just after it answered.
    pub received: Micros,
    /// The answer.
    pub answer: Answer,
}

/// A limiter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Allowed,
    /// Not now.
    Denied {
        /// In so many µs, if the limiter says so.
        retry_after: Option<Micros>,
    },
    /// None: Redis was away, or late.
    Failed,
}

/// A take in few bytes, as workers report it: bucket, count, sent, time to the answer, and the answer as a number.
type Row = (u32, u32, Micros, Micros, i64);

const ALLOWED: i64 = -1;
const DENIED: i64 = -2;
const FAILED: i64 = -3;

// === impl Take ===

impl From<Take> for Row {
    fn from(take: Take) -> Self {
        let answer = match take.answer {
            Answer::Allowed => ALLOWED,
            Answer::Denied { retry_after: None } => DENIED,
            Answer::Denied { retry_after: Some(wait) } => i64::try_from(wait).unwrap_or(i64::MAX),
            Answer::Failed => FAILED,
        };
        (take.bucket, take.count, take.sent, take.received - take.sent, answer)
    }
}

impl From<Row> for Take {
    fn from((bucket, count, sent, way, answer): Row) -> Self {
        let answer = match answer {
            ALLOWED => Answer::Allowed,
            DENIED => Answer::Denied { retry_after: None },
            FAILED => Answer::Failed,
            wait => Answer::Denied { retry_after: Some(wait.unsigned_abs()) },
        };
        Self { bucket, count, sent, received: sent + way, answer }
    }
}

impl Take {
    /// Whether it was allowed.
    pub const fn is_allowed(&self) -> bool {
        matches!(self.answer, Answer::Allowed)
    }

    /// Whether it was denied.
    pub const fn is_denied(&self) -> bool {
        matches!(self.answer, Answer::Denied { .. })
    }

    /// Whether it may have had its tokens: one without an answer may have been carried out all the same.
    pub const fn may_have_taken(&self) -> bool {
        !self.is_denied()
    }

    /// The instant at which it is taken to have been decided, where one has to be chosen.
    pub const fn middle(&self) -> Micros {
        self.sent + (self.received - self.sent) / 2
    }
}

/// The takes of each bucket by itself, in the order in which they were answered.
pub fn by_bucket(takes: &[Take]) -> Vec<Vec<Take>> {
    let mut sorted = takes.to_vec();
    sorted.sort_by_key(|take| (take.bucket, take.received, take.sent));
    sorted.chunk_by(|a, b| a.bucket == b.bucket).map(<[Take]>::to_vec).collect()
}
