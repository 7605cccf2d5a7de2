//! A permit: a number of places that its holder has.

use std::{sync::Arc, time::Duration};

use tokio::sync::{oneshot, watch};

use super::shard::Shard;
use crate::{
    decision::Decision,
    error::Error,
    machine::{Micros, PermitLease},
    shell::{BucketEntry, Handle},
};

/// Places of a limit with `algorithm = "concurrency"`, from [`Bucket::acquire`](crate::Bucket::acquire). Dropped, it is
/// released.
///
/// The client keeps it alive: it renews it three times within the limit's `ttl`. If Redis is away for so long, the permit
/// is [lost](Self::lost), and the holder knows before another one gets its places.
///
/// # Examples
/// ```no_run
/// # async fn render() {}
/// # async fn example(topup: topup::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let permit = topup.limit("gpu").key("alice").acquire(1, Duration::from_secs(5)).await??;
/// tokio::select! {
///     () = render() => permit.release().await?,
///     () = permit.lost() => println!("Redis was away for too long: start again"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped is released"]
pub struct Permit {
    count: u64,
    decision: Decision,
    place: Place,
}

/// The place of a permit.
#[derive(Debug)]
enum Place {
    /// In Redis.
    Redis(Hold),
    /// In the local bucket of this process, by the outage policy.
    Local(Handle, Arc<BucketEntry>),
    /// Nowhere: the limit is off or in shadow, or the outage policy allows everything.
    None,
}

/// A permit in Redis that is held or waited for. Dropped, it is released.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) handle: Handle,
    pub(super) shard: Arc<Shard>,
    pub(super) number: u64,
    pub(super) member: String,
    pub(super) id: String,
    pub(super) lease: watch::Receiver<PermitLease>,
    /// The longest time for which Redis keeps the place, in µs.
    pub(super) ttl: Micros,
    pub(super) is_released: bool,
}

// === impl Permit ===

impl Permit {
    pub(super) const fn in_redis(count: u64, decision: Decision, hold: Hold) -> Self {
        Self { count, decision, place: Place::Redis(hold) }
    }

    pub(super) const fn local(
        count: u64,
        decision: Decision,
        handle: Handle,
        entry: Arc<BucketEntry>,
    ) -> Self {
        Self { count, decision, place: Place::Local(handle, entry) }
    }

    pub(super) const fn nowhere(count: u64, decision: Decision) -> Self {
        Self { count, decision, place: Place::None }
    }

    /// The number of places.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The decision: [`Allowed`](Decision::Allowed) for a permit in Redis, with the places that were left.
    /// [`Shadowed`](Decision::Shadowed) or [`Degraded`](Decision::Degraded) for one that Redis does not count.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Whether the places are the holder's. `false` once the permit was not renewed for a `ttl`: another holder may have
    /// the places by then. A permit that Redis does not count is valid until it is dropped.
    pub fn is_valid(&self) -> bool {
        match &self.place {
            Place::Redis(hold) => hold.left().is_some(),
            Place::Local(..) | Place::None => true,
        }
    }

    /// The time for which the places are the holder's, even if no renewal succeeds: less than the limit's `ttl`. Zero for a
    /// lost permit, [`Duration::MAX`] for one that Redis does not count.
    pub fn valid_for(&self) -> Duration {
        match &self.place {
            Place::Redis(hold) => hold.left().map_or(Duration::ZERO, Duration::from_micros),
            Place::Local(..) | Place::None => Duration::MAX,
        }
    }

    /// Returns when the permit is lost: Redis was away for a `ttl`, or lost its data, or the limit was removed. Never
    /// returns for a permit that Redis does not count.
    ///
    /// The holder is told before Redis gives the places away, unless the clock of Redis steps forward.
    pub async fn lost(&self) {
        let Place::Redis(hold) = &self.place else { return std::future::pending().await };
        let mut lease = hold.lease.clone();
        let clock = &hold.handle.shared().clock;
        loop {
            let present = *lease.borrow_and_update();
            let PermitLease::Held { until, .. } = present.at(clock.now()) else { return };
            let left = Duration::from_micros(until.saturating_sub(clock.now()));
            // Renewed, lost, or at its end.
            let _ = clock.timeout(left, lease.changed()).await;
        }
    }

    /// Gives the places back, and returns once Redis has done so. Dropping the permit does the same in the background.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`] without an answer of Redis within the deadline. Attempts go on in the background for a
    /// `ttl`, after which the places are free anyway.
    pub async fn release(mut self) -> Result<(), Error> {
        let Place::Redis(hold) = &mut self.place else { return Ok(()) };
        let done = hold.let_go();
        let shared = hold.handle.shared();
        let deadline = shared.deadline;
        match shared.clock.timeout(deadline, done).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Error::DeadlineExceeded { deadline }),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // A permit in Redis is released by the drop of its hold.
        if let Place::Local(handle, entry) = &self.place {
            entry.put_back_locally(self.count, handle);
        }
    }
}

// === impl Hold ===

impl Hold {
    /// µs for which the permit is held at least; `None` for one that is not held.
    pub(super) fn left(&self) -> Option<Micros> {
        let now = self.handle.shared().clock.now();
        match self.lease.borrow().at(now) {
            PermitLease::Held { until, .. } => Some(until - now),
            _ => None,
        }
    }

    /// Has the permit released.
    fn let_go(&mut self) -> oneshot::Receiver<()> {
        self.is_released = true;
        let shared = self.handle.shared();
        let until = shared.clock.now().saturating_add(self.ttl);
        self.shard.release(self.number, &self.member, &self.id, until, shared)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_released {
            drop(self.let_go());
        }
    }
}
