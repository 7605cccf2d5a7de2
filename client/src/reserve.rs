//! Reservations: places in the queue of a leaky bucket.

use std::time::Duration;

use topup_wire::{
    bucket::{Operation, Reservation},
    limit::{Algorithm, Mode},
    reply::{Settled, Verdict},
};

use crate::{
    bucket::{Bucket, Here, checked, decision},
    decision::Decision,
    error::Error,
};

/// The longest delay that scripts compute exactly, in µs.
const MAX_DELAY: u64 = 1 << 53;

/// The answer to [`Bucket::reserve`]: a place in the queue, or none.
#[must_use = "an unread reservation delays nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    decision: Decision,
    delay: Duration,
}

// === impl Reserved ===

impl Reserved {
    /// Whether there was a place. Denied if the queue is full, or if the delay would be too long. `remaining` is the room
    /// left in the queue, and `capacity` its length, both in tokens.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Time to wait before the caller proceeds; `None` if it may not.
    pub const fn delay(&self) -> Option<Duration> {
        if self.decision.is_allowed() { Some(self.delay) } else { None }
    }

    /// Time until a denied reservation would be granted, if no other caller makes one meanwhile; `None` if it was granted.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }
}

// === impl Bucket ===

impl Bucket {
    /// Reserves `count` tokens of a limit with `algorithm = "leaky-bucket"`, for use after a delay of at most `longest`.
    /// Callers that keep their delays proceed at the limit's rate, one after the other.
    ///
    /// This method does not wait: [`Bucket::wait`] does. [`Bucket::refund`] gives back a reservation that is not used. A
    /// limit in shadow delays no caller.
    ///
    /// # Errors
    /// [`Error::NoQueue`] if the limit has another algorithm; otherwise the same as for [`Bucket::take`].
    pub async fn reserve(&self, count: u64, longest: Duration) -> Result<Reserved, Error> {
        checked(count)?;
        match self.here().await? {
            Here::Bucket(bucket) => bucket.reserve_here(count, longest).await,
            Here::Decided(decision) => {
                let decision = self.conclude(self.entry()?, count, Ok(decision))?;
                Ok(Reserved { decision, delay: Duration::ZERO })
            }
        }
    }

    async fn reserve_here(&self, count: u64, longest: Duration) -> Result<Reserved, Error> {
        let longest = longest.as_micros().min(MAX_DELAY.into()) as u64;
        let paused = self.paused_decision(count).await;
        let is_queue = |entry| {
            let published = self.last_published(entry);
            published.is_some_and(|published| published.limit.algorithm == Algorithm::LeakyBucket)
        };
        if let Some(paused) = paused.filter(|_| self.entry().is_ok_and(|entry| is_queue(entry))) {
            let decision = self.conclude(self.entry()?, count, Ok(paused))?;
            return Ok(Reserved { decision, delay: Duration::ZERO });
        }
        let operation = Operation::Reserve(Reservation { count, longest, ..Reservation::default() });
        let settled = self.handle().within_deadline(self.settle_in_queue(operation)).await;
        let granted = settled.as_ref().ok().filter(|settled| settled.verdict == Verdict::Allowed);
        let delay = Duration::from_micros(granted.map_or(0, |settled| settled.wait));
        let entry = self.entry()?;
        let decision = self.conclude(entry, count, settled.map(|settled| decision(&settled)))?;
        let published = self.last_published(entry);
        let is_enforced = published.is_none_or(|published| published.mode(entry.key()) == Mode::Enforce);
        Ok(Reserved { decision, delay: if is_enforced { delay } else { Duration::ZERO } })
    }

    /// Sends `operation` to the script of a leaky bucket.
    async fn settle_in_queue(&self, operation: Operation) -> Result<Settled, Error> {
        let (entry, handle) = (self.entry()?, self.handle());
        handle.check_circuit(entry)?;
        let published = entry.read(handle).await?;
        let algorithm = published.limit.algorithm;
        let is_off = published.mode(entry.key()) == Mode::Off;
        if !is_off && !algorithm.has_permits() && algorithm != Algorithm::LeakyBucket {
            let limit = entry.name().to_string();
            return Err(Error::NoQueue { limit, algorithm: algorithm.as_str() });
        }
        self.settle(operation).await
    }
}
