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

/// The answer to a reservation.
#[must_use = "a reservation that nobody looks at holds nobody back"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The tokens are yours.
    After {
        /// How long to wait before you proceed: until all that was reserved before has had its turn. Zero: now.
        delay: Duration,
        /// How many more tokens fit into the queue.
        remaining: u64,
        /// How many it holds.
        capacity: u64,
    },
    /// Proceed at once, though the limit would have denied this had it been enforced: it, or this key of it, is in
    /// shadow. Nothing was reserved.
    Shadowed {
        /// How many more tokens fit into the queue.
        remaining: u64,
        /// How many it holds.
        capacity: u64,
        /// What the wait until the same reservation would be granted is said to be.
        retry_after: Duration,
    },
    /// Nothing was reserved: the queue is full, or so long that the delay would be.
    Denied {
        /// How many more tokens fit into the queue.
        remaining: u64,
        /// How many it holds.
        capacity: u64,
        /// How long until the same reservation would be granted, if nobody else makes one meanwhile.
        retry_after: Duration,
    },
}

// === impl Reserved ===

impl Reserved {
    /// How long to wait before you proceed; `None` when you may not.
    pub const fn delay(&self) -> Option<Duration> {
        match *self {
            Self::After { delay, .. } => Some(delay),
            Self::Shadowed { .. } => Some(Duration::ZERO),
            Self::Denied { .. } => None,
        }
    }

    /// How long until a denied reservation would be granted; `None` when you may proceed.
    pub const fn retry_after(&self) -> Option<Duration> {
        match *self {
            Self::After { .. } | Self::Shadowed { .. } => None,
            Self::Denied { retry_after, .. } => Some(retry_after),
        }
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
        let delay = match &settled {
            Ok(settled) if settled.verdict == Verdict::Allowed => Duration::from_micros(settled.wait),
            _ => Duration::ZERO,
        };
        let slot = self.slot()?;
        let judged = self.decided(slot, count, settled.map(|settled| decision(&settled)))?;
        let enforced = || self.last_place(slot).is_none_or(|place| place.mode == Mode::Enforce);
        Ok(match judged {
            Decision::Allowed { remaining, capacity } => {
                let delay = if enforced() { delay } else { Duration::ZERO };
                Reserved::After { delay, remaining, capacity }
            }
            Decision::Shadowed { remaining, capacity, retry_after } => {
                Reserved::Shadowed { remaining, capacity, retry_after }
            }
            Decision::Denied { remaining, capacity, retry_after } => {
                Reserved::Denied { remaining, capacity, retry_after }
            }
        })
    }
}
