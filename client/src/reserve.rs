//! A place in the queue of a leaky bucket.

use std::time::Duration;

use topup_wire::{bucket::Operation, limit::Mode, reply::Verdict};

use crate::{
    bucket::{Bucket, checked, decision},
    decision::Decision,
    error::Error,
};

/// A delay beyond all that can be asked for, in µs: scripts count exactly up to here.
const FOR_EVER: u64 = 1 << 53;

/// The answer to a reservation: a place in the queue, or none.
#[must_use = "a reservation that nobody looks at holds nobody back"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    decision: Decision,
    delay: Duration,
}

// === impl Reserved ===

impl Reserved {
    /// Whether there was a place: denied when the queue is full, or so long that the delay would be. What it says of a
    /// bucket is said of the queue: how many more tokens fit into it, and how many it holds.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// How long to wait before you proceed, until all that was reserved before has had its turn; `None` when you may not.
    pub const fn delay(&self) -> Option<Duration> {
        if self.decision.is_allowed() { Some(self.delay) } else { None }
    }

    /// How long until a denied reservation would be granted, if nobody else makes one meanwhile; `None` when you may
    /// proceed.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }
}

// === impl Bucket ===

impl Bucket {
    /// Reserves `count` tokens of a limit with `algorithm = "leaky-bucket"`, to be used after a delay of `longest` at
    /// most: so all callers together proceed at the limit's rate, one after the other. Nothing waits here; see
    /// [`Bucket::wait`] for that. A reservation that is not used is given back with [`Bucket::refund`].
    ///
    /// Of a limit in shadow, nobody is held back: whatever the queue says, the delay is none.
    ///
    /// # Errors
    /// [`Error::NoQueue`] when the limit is of another algorithm; otherwise as [`Bucket::take`].
    pub async fn reserve(&self, count: u64, longest: Duration) -> Result<Reserved, Error> {
        checked(count)?;
        let longest = longest.as_micros().min(FOR_EVER.into()) as u64;
        let operation = Operation::Reserve { count, longest };
        let settled = self.within_deadline(self.settle(operation)).await;
        let turn = settled.as_ref().ok().filter(|settled| settled.verdict == Verdict::Allowed);
        let wait = Duration::from_micros(turn.map_or(0, |settled| settled.wait));
        let entry = self.entry()?;
        let decision = self.decided(entry, count, settled.map(|settled| decision(&settled)))?;
        let published = self.last_published(entry);
        let enforced = published.is_none_or(|published| published.mode(entry.key()) == Mode::Enforce);
        Ok(Reserved { decision, delay: if enforced { wait } else { Duration::ZERO } })
    }
}
