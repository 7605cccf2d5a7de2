//! The words between a run and its workers: orders, and reports of calls.

use serde::{Deserialize, Serialize};
use topup::Error;

/// The work of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub worker: usize,
    /// The Redis, or a proxy before it.
    pub url: String,
    /// The number that its callers' random numbers begin with.
    pub seed: u64,
    /// The traffic on each bucket.
    pub traffics: Vec<Traffic>,
}

/// The callers of one bucket, and the way in which they call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// The number of the bucket.
    pub bucket: usize,
    /// Its limit.
    pub limit: String,
    /// Its key.
    pub key: Option<String>,
    /// Tasks that call, one call after the other.
    pub callers: usize,
    /// Mean time between two calls of one caller, in µs.
    pub every: u64,
    /// Whether callers leave, look and refund, too.
    pub is_varied: bool,
    /// Time that a refund may take longer than the deadline, in µs.
    pub in_hand: u64,
}

/// A report of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Told {
    /// It is connected.
    Ready(usize),
    /// A call is answered.
    Call(Call),
    /// It has put back its tokens and dropped its client, and so many tasks are left.
    Ended(usize),
}

/// One call and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The worker.
    pub worker: usize,
    /// The bucket.
    pub bucket: usize,
    /// The call.
    pub what: What,
    /// Tokens.
    pub count: u64,
    /// The instant before it, in µs of the machine's clock.
    pub sent: u64,
    /// The instant after it.
    pub received: u64,
    /// Time in which the machine kept the worker from running meanwhile, in µs.
    pub stalled: u64,
    /// The answer.
    pub answer: Answer,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A take, with patience or without.
    Take,
    /// A look.
    Peek,
    /// Tokens put back.
    Refund,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The tokens were taken, or put back.
    Done,
    /// They were not.
    Denied,
    /// The caller has left before the answer.
    Left,
    /// An error that may pass.
    Transient(String),
    /// Any other error.
    Failed(String),
}

// === impl Answer ===

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        if error.is_transient() {
            Self::Transient(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}
