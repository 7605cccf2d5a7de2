//! Acquiring permits: the place in Redis, or the turn among the waiters there.

use std::{sync::Arc, time::Duration};

use topup_wire::limit::{MAX_TOKENS, Mode, OnOutage};

use super::{
    asking::{Acquired, Asked, Asking, allowed, denied},
    permit::Permit,
};
use crate::{
    bucket::{Bucket, checked},
    decision::Decision,
    denied::Denied,
    error::Error,
    machine::Micros,
    multi_decision::MultiDecision,
    shell::{BucketEntry, clock::micros, unknown},
};

/// Between two looks whether a pause has ended early.
const PAUSE_LOOK: Duration = Duration::from_millis(250);
/// Most attempts to acquire at once, while the limit changes.
const MOST_ATTEMPTS: u32 = 4;

// === impl Bucket ===

impl Bucket {
    /// Acquires `count` permits of a limit with `algorithm = "concurrency"`, all or nothing, and waits up to `patience` for
    /// them. `count` is 1 to the limit.
    ///
    /// Waiters are served in order, across all processes. A waiter learns of its permits within 50 ms and a round trip.
    /// With a patience of zero, the call does not wait, and does not overtake those who do. Dropping the future gives
    /// the turn back.
    ///
    /// The inner error is a denial: no permits came within `patience`, the bucket is paused for longer, or 1,000 waiters
    /// wait for this key already. Its `retry_after` is a guess: permits come back when their holders have finished.
    ///
    /// # Errors
    /// [`Error::NoPermits`] if the limit has another algorithm. [`Error::ExceedsCapacity`] if `count` is more than the
    /// limit. Otherwise the same as for [`Bucket::take`]. A call that failed leaves no permit behind for longer than the
    /// limit's `ttl`.
    pub async fn acquire(&self, count: u64, patience: Duration) -> Result<Result<Permit, Denied>, Error> {
        checked(count)?;
        let entry = self.entry()?;
        let shared = self.handle().shared();
        let until =
            shared.clock.now().saturating_add(micros(patience.min(Duration::from_micros(MAX_TOKENS))));
        let (result, hold) = match Box::pin(self.acquire_in_redis(entry, count, until)).await {
            Ok((decision, hold)) => (Ok(decision), hold),
            Err(error) => (Err(error), None),
        };
        let decision = self.conclude(entry, count, result)?;
        if !decision.is_allowed() {
            let denied = Denied::by(&MultiDecision::of_one(entry, decision), &[]);
            return Ok(Err(denied.ok_or_else(|| unknown(entry))?));
        }
        Ok(Ok(match (hold, decision) {
            (Some(hold), _) => Permit::in_redis(count, decision, hold),
            (None, Decision::Degraded { on_outage: OnOutage::Local, .. }) => {
                Permit::local(count, decision, self.handle().clone(), entry.clone())
            }
            _ => Permit::nowhere(count, decision),
        }))
    }

    async fn acquire_in_redis(
        &self,
        entry: &Arc<BucketEntry>,
        count: u64,
        until: Micros,
    ) -> Result<Acquired, Error> {
        let handle = self.handle();
        let shared = handle.shared();
        let clock = &shared.clock;
        for _ in 0..MOST_ATTEMPTS {
            if let Some(denied) = self.wait_out_pause(entry, until).await {
                return Ok((denied, None));
            }
            handle.check_circuit(entry)?;
            let published = handle.within_deadline(entry.read(handle)).await?;
            let algorithm = published.limit.algorithm;
            if !algorithm.has_permits() {
                let limit = entry.name().to_string();
                return Err(Error::NoPermits { limit, algorithm: algorithm.as_str() });
            }
            if let Some(decision) = published.decision_if_off(entry.key()) {
                return Ok((decision, None));
            }
            let capacity = published.limit.terms.capacity.get();
            if count > capacity {
                let limit = entry.name().to_string();
                return Err(Error::ExceedsCapacity { limit, count, capacity });
            }
            // A limit that is not enforced holds nobody up.
            let waits = clock.now() < until && published.mode(entry.key()) == Mode::Enforce;
            let mut asking = Asking::new(self, &published, entry, count);
            let reply = match asking.ask(waits).await? {
                Asked::Decided(decided) => return Ok(decided),
                Asked::Changed => continue,
                Asked::Waits(reply) => reply,
            };
            if let Some(hold) = asking.wait(until).await? {
                if let Some(denied) = self.wait_out_pause(entry, until).await {
                    return Ok((denied, None));
                }
                // All places are held: it was the first to wait.
                return Ok((allowed(&reply, reply.limit), Some(hold)));
            }
            return Ok((denied(&reply), None));
        }
        Err(Error::LimitLost { limit: entry.name().to_string() })
    }

    /// Waits until the bucket is not paused. The denial if that is after `until`.
    async fn wait_out_pause(&self, entry: &Arc<BucketEntry>, until: Micros) -> Option<Decision> {
        let (handle, shared) = (self.handle(), self.handle().shared());
        while entry.is_paused(handle) {
            let (now, end) = (shared.clock.now(), shared.pauses.until(entry.name(), entry.key())?);
            if end > until {
                let capacity =
                    entry.limit().last().map_or(0, |published| published.limit.terms.capacity.get());
                let retry_after = Duration::from_micros(end.saturating_sub(now).max(1));
                return Some(Decision::Denied { remaining: 0, capacity, retry_after });
            }
            let wait = Duration::from_micros(end.saturating_sub(now));
            shared.clock.sleep(wait.min(PAUSE_LOOK)).await;
        }
        None
    }
}
