//! The history of a run: the terms that Redis had, and the calls with their answers.

use crate::clients::Rule;

/// The terms that Redis had between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) rule: Rule,
    pub(super) since: u64,
    /// Every bucket may be full at its beginning.
    pub(super) is_anew: bool,
}

/// The request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An owner, for so many µs.
    Define(usize, u64),
    Undefine(usize),
    /// The config, until it has dropped the limit.
    Config,
}

/// A call and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) asked: Asked,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Refused,
    TooMany,
    /// An error, or none yet.
    Unknown,
}
