//! The case of a run: its plan, its calls, its faults and its ledgers.

use crate::{
    limits::Limit,
    oracle::Taken,
    plan::{Fault, Plan},
    worker::{Answer, Call, What},
};

/// The events of a run. Instants are µs of the machine's clock.
#[derive(Debug)]
pub struct Case<'c> {
    /// Its plan.
    pub plan: &'c Plan,
    /// Its buckets, by their numbers.
    pub buckets: &'c [(&'static Limit, Option<&'static str>)],
    /// All calls.
    pub calls: &'c [Call],
    /// Faults: from, until.
    pub happened: &'c [(u64, u64, Fault)],
    /// Ledgers; none if Redis loses its data.
    pub audits: &'c [Audit],
    /// The longest time for which the machine stood still, or kept a worker waiting for a CPU within one call.
    pub stalled: u64,
    /// The instant at which the workers began.
    pub begin: u64,
    /// The instant at which all faults were over.
    pub quiet: u64,
    /// The instant at which the workers were told to stop.
    pub tail_end: u64,
}

/// The ledger of a bucket that was emptied at `began`, and again at `ended`.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// The bucket.
    pub bucket: usize,
    /// Before and after the call that emptied it.
    pub began: (u64, u64),
    /// Before and after the denial that showed that it is nearly empty again.
    pub ended: (u64, u64),
    /// Tokens that were left, and taken then.
    pub drained: u64,
    /// More tokens than were left after that.
    pub left: u64,
}

// === impl Case ===

impl Case<'_> {
    pub(super) fn calls_of(&self, bucket: usize) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.bucket == bucket)
    }

    pub(super) fn name(&self, bucket: usize) -> String {
        let (limit, key) = self.buckets[bucket];
        key.map_or(limit.name.to_owned(), |key| format!("{} of {key}", limit.name))
    }

    /// An instant in ms of the run.
    pub(super) fn ms(&self, at: u64) -> String {
        format!("{:.1} ms", (at as f64 - self.begin as f64) / 1e3)
    }
}

// === impl Call ===

impl Call {
    /// The tokens, if it took some.
    pub(super) fn taken(&self) -> Option<Taken> {
        (self.what == What::Take && self.answer == Answer::Done).then(|| self.all())
    }

    /// Its tokens, whether it took them or not.
    pub(super) fn all(&self) -> Taken {
        Taken { sent: self.sent, received: self.received, count: self.count }
    }
}
