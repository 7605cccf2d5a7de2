//! A task that takes permits, its commands, and the events of a run.

use topup::machine::{Micros, PermitLease};

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Nothing,
    Asks,
    Waits,
    Holds { until: Micros },
}

/// A task and its permit.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) places: u64,
    pub(super) doing: Doing,
    pub(super) lease: PermitLease,
}

/// A command of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    Acquire { waits: bool },
    Renew,
    Release,
}

/// Something that is still to happen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Wake(usize),
    Arrives { task: usize, id: String, places: u64, word: Word, sent: Micros },
    Answered { task: usize, id: String, word: Word, sent: Micros, state: i8, ttl: u64 },
    Late { task: usize, id: String },
    Dies(usize),
}
