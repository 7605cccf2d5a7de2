//! Happenings of a run, and their order.

use std::cmp::Ordering;

use crate::{
    in_flight::{Poll, SentCommand, SentCorrection, SentPutIn},
    plan::Ask,
    read_limit::ReadLimit,
};

/// Something that is still to happen.
pub(crate) enum Happening {
    /// The next caller of a stream.
    Traffic(usize),
    /// A caller asks a worker for a bucket; it asks again when it is answered, until the instant.
    Asks { worker: usize, bucket: usize, ask: Ask, until: u64 },
    /// A caller goes away.
    Leaves(usize),
    /// A caller has no use for its answer.
    Unheard(usize),
    /// The pipeline is ready for a command.
    Ready { worker: usize, bucket: usize, number: u32 },
    /// Redis carries a command out.
    Execute(Box<SentCommand>),
    /// A command has come to an end.
    Completed(Box<SentCommand>),
    /// A worker's corrections have waited for a command for long enough.
    Corrects(usize),
    /// Redis corrects a bucket at rest.
    Adjusts(Box<SentCorrection>),
    /// A correction has come to an end.
    Adjusted(Box<SentCorrection>),
    /// A worker looks at its timers.
    Looks(usize),
    /// A worker polls.
    Polls(usize),
    /// Redis is polled, and then the worker has the reply.
    Polled(Box<Poll>),
    /// A worker's poll has ended.
    PollEnds(Box<Poll>),
    /// Redis is asked for the limit.
    Reads(usize, u64),
    /// A worker has the limit, or an error.
    HasRead(usize, Option<Box<ReadLimit>>),
    /// Tokens reach Redis.
    PutsIn(Box<SentPutIn>),
    /// A charge of so many tokens reaches Redis.
    Charges(usize, u64),
    /// The wait for a put-in ends.
    PutInEnds(Box<SentPutIn>),
    /// A daemon's pass.
    Pass(u64),
    /// A daemon says that it lives.
    Beat,
    /// A daemon looks whether the terms are as they should be.
    Publishes,
    /// A bucket at rest is migrated over a change.
    Touch(usize),
    /// The state that a replica has.
    Replicates,
    /// A mishap of the plan.
    Mishap(usize),
    /// A scheduled change of terms.
    Boundary(usize),
}

/// A happening at its instant.
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) order: u64,
    pub(super) what: Happening,
}

// === impl Event ===

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
