//! Takes and their answers.

use serde::{Deserialize, Serialize};

use topup_lab::clock::Micros;

/// A take. It was decided at an instant that only Redis knows, somewhere between `sent` and `received`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Row", from = "Row")]
pub struct Take {
    /// Whose bucket, as a number.
    pub bucket: u32,
    /// The worker that asked. A report leaves it out: it is of one worker.
    pub worker: u32,
    /// Tokens asked for.
    pub count: u32,
    /// Just before the limiter was asked.
    pub sent: Micros,
    /// Just after it answered.
    pub received: Micros,
    /// The answer.
    pub answer: Answer,
    /// The end of its use, where tokens are held for a while.
    pub end: Option<End>,
}

/// The end of the use of tokens that were held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Just before the limiter was told.
    pub sent: Micros,
    /// Just after it answered.
    pub received: Micros,
    /// Tokens charged beyond the estimate, or given back, where below 0. `None` for an error: it may have been carried out.
    pub tokens: Option<i64>,
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
    /// Not a take, but tokens that a take was charged afterwards.
    Charged,
}

/// A take in few bytes, as workers report it: bucket, count, sent, time to the answer, the answer as a number, and the end.
type Row = (u32, u32, Micros, Micros, i64, Option<End>);

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
            Answer::Failed | Answer::Charged => FAILED,
        };
        (take.bucket, take.count, take.sent, take.received - take.sent, answer, take.end)
    }
}

impl From<Row> for Take {
    fn from((bucket, count, sent, way, answer, end): Row) -> Self {
        let answer = match answer {
            ALLOWED => Answer::Allowed,
            DENIED => Answer::Denied { retry_after: None },
            FAILED => Answer::Failed,
            wait => Answer::Denied { retry_after: Some(wait.unsigned_abs()) },
        };
        Self { bucket, worker: 0, count, sent, received: sent + way, answer, end }
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

    /// The wait that a denial told.
    pub const fn retry_after(&self) -> Option<Micros> {
        match self.answer {
            Answer::Denied { retry_after } => retry_after,
            _ => None,
        }
    }

    /// Whether it stands for tokens that a take was charged afterwards.
    pub const fn is_charge(&self) -> bool {
        matches!(self.answer, Answer::Charged)
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
