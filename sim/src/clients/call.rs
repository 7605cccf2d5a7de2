//! A call of a client, and its answer.

use topup::{Decision, Error};

use crate::plan::SECOND;

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

/// Whether an answer of Redis allows.
pub(crate) const fn is_allowed(answer: &Result<Decision, Error>) -> Option<bool> {
    match answer {
        Ok(decision) => Some(decision.is_allowed()),
        Err(_) => None,
    }
}

/// Holds allowed calls, in the order of their answers, to less than a token above `most`: millionths of a token between two
/// instants.
pub(crate) fn never_over(calls: &[&Call], most: impl Fn(u64, u64) -> u128) -> Result<(), String> {
    for first in calls {
        let (from, mut tokens) = (first.sent, 0);
        for call in calls.iter().filter(|call| call.sent >= from) {
            tokens += call.count;
            let most = most(from, call.received);
            if u128::from(tokens * SECOND) >= most + u128::from(SECOND) {
                return Err(format!("never over: {tokens} of {most} / {SECOND}, {first:?} to {call:?}"));
            }
        }
    }
    Ok(())
}
