//! A call of a client, and its answer.

use std::sync::{Mutex, PoisonError};

use topup::{Decision, Error};

/// A call of a client. It was decided between `sent` and `received` of Redis `TIME`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    pub(crate) key: usize,
    pub(crate) count: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// `None` for an error.
    pub(crate) is_allowed: Option<bool>,
    /// Whether it has patience.
    pub(crate) waits: bool,
    /// The time that a denied call was told to wait, in µs.
    pub(crate) retry_after: u64,
    /// Its client knew no such limit.
    pub(crate) is_unknown: bool,
}

pub(super) fn note(calls: &Mutex<Vec<Call>>, call: Call) {
    calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
}

/// Whether an answer of Redis allows.
pub(crate) const fn is_allowed(answer: &Result<Decision, Error>) -> Option<bool> {
    match answer {
        Ok(decision) => Some(decision.is_allowed()),
        Err(_) => None,
    }
}
