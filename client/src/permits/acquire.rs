//! Acquiring permits: the place in Redis, or the turn among the waiters there.

use std::{sync::Arc, time::Duration};

use topup_wire::{
    limit::{MAX_TOKENS, Mode, OnOutage},
    scripts::{self, KeyPermits, PermitOperation, PermitState, Permits},
};

use super::{
    permit::{Hold, Permit},
    shard::POLL,
};
use crate::{
    bucket::{Bucket, checked},
    decision::Decision,
    denied::Denied,
    error::Error,
    machine::{Micros, PermitLease},
    multi_decision::MultiDecision,
    shell::{BucketEntry, Published, clock::micros, unknown},
};

/// The longest `retry_after`: permits come back when their holders have finished, which nobody knows before.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between two looks whether a pause has ended early.
const PAUSE_LOOK: Duration = Duration::from_millis(250);
/// Most attempts to acquire at once, while the limit changes.
const MOST_ATTEMPTS: u32 = 4;

/// A decision on permits, and the hold in Redis if there is one.
type Acquired = (Decision, Option<Hold>);

// === impl Bucket ===

impl Bucket {
    /// Acquires `count` permits of a limit with `algorithm = "concurrency"`, all or nothing, and waits up to `patience` for
    /// them. `count` is 1 to the limit.
    ///
    /// Waiters are served in order, across all processes. A waiter learns of its permits within 50 ms and a round trip. With a
    /// patience of zero, the call does not wait, and does not overtake those who do. Dropping the future gives the turn
    /// back.
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

/// A call that asks for a permit. Dropped before it is answered, it releases what it may have got.
struct Asking<'a> {
    bucket: &'a Bucket,
    entry: &'a Arc<BucketEntry>,
    hold: Option<Hold>,
}

/// The outcome of a question.
enum Asked {
    /// It holds, or nothing is left to be done.
    Decided(Acquired),
    /// The limit has changed since it was read.
    Changed,
    /// It waits.
    Waits(Permits),
}

// === impl Asking ===

impl<'a> Asking<'a> {
    fn new(bucket: &'a Bucket, published: &Published, entry: &'a Arc<BucketEntry>, count: u64) -> Self {
        let (handle, shared) = (bucket.handle().clone(), bucket.handle().shared());
        let location = published.locate(entry.key());
        let (number, id) = shared.permits.new_id(count);
        let shard = shared.permits.shard(location.keys);
        let (_, lease) = tokio::sync::watch::channel(PermitLease::Forgotten);
        let (member, ttl) = (location.member.to_owned(), published.permit_ttl());
        let hold = Hold { handle, shard, number, member, id, lease, ttl, is_released: false };
        Self { bucket, entry, hold: Some(hold) }
    }

    /// Sends the question.
    async fn ask(&mut self, waits: bool) -> Result<Asked, Error> {
        let Some(hold) = &mut self.hold else { return Ok(Asked::Changed) };
        let (handle, shared) = (self.bucket.handle(), self.bucket.handle().shared());
        let sent = shared.clock.now();
        let reply = handle.within_deadline(ask(hold, waits)).await?;
        let now = shared.clock.now();
        let state = reply.states.first().copied().unwrap_or(PermitState::Absent);
        let lease = match state {
            _ if reply.ttl == 0 => {
                self.entry.limit().invalidate();
                self.forget();
                return Ok(Asked::Changed);
            }
            PermitState::ExceedsLimit => {
                self.entry.limit().invalidate();
                let limit = self.entry.name().to_string();
                let count = checked_count(&self.forget());
                return Err(Error::ExceedsCapacity { limit, count, capacity: reply.limit });
            }
            PermitState::Absent => {
                self.forget();
                return Ok(Asked::Decided((denied(&reply), None)));
            }
            PermitState::Held => PermitLease::held(sent, reply.ttl).at(now),
            PermitState::Waiting => PermitLease::Waiting { heard_at: sent },
        };
        hold.ttl = hold.ttl.max(reply.ttl);
        hold.lease = hold.shard.keep(hold.number, &hold.member, &hold.id, lease, shared);
        match lease {
            PermitLease::Held { .. } => {
                let decision = allowed(&reply, reply.held);
                Ok(Asked::Decided((decision, self.hold.take())))
            }
            PermitLease::Waiting { .. } => Ok(Asked::Waits(reply)),
            // The answer took longer than a lease.
            _ => Err(Error::DeadlineExceeded { deadline: shared.deadline }),
        }
    }

    /// Waits for the place until `until`; `None` without one.
    async fn wait(&mut self, until: Micros) -> Result<Option<Hold>, Error> {
        let (handle, shared) = (self.bucket.handle(), self.bucket.handle().shared());
        let clock = &shared.clock;
        while let Some(hold) = &mut self.hold {
            let lease = *hold.lease.borrow_and_update();
            match lease.at(clock.now()) {
                PermitLease::Held { .. } => return Ok(self.hold.take()),
                PermitLease::Unheard => return Err(Error::DeadlineExceeded { deadline: shared.deadline }),
                PermitLease::Forgotten | PermitLease::Lost => {
                    // Its turn was taken away: it asks for another one.
                    let sent = clock.now();
                    if sent >= until {
                        return Ok(None);
                    }
                    let reply = handle.within_deadline(ask(hold, true)).await?;
                    let lease = match reply.states.first() {
                        Some(PermitState::Held) if lease != PermitLease::Lost => {
                            PermitLease::held(sent, reply.ttl)
                        }
                        Some(PermitState::Waiting) => PermitLease::Waiting { heard_at: sent },
                        _ => return Ok(None),
                    };
                    hold.shard.wait_again(hold.number, lease);
                }
                PermitLease::Waiting { .. } => {
                    let left = Duration::from_micros(until.saturating_sub(clock.now()));
                    if left.is_zero() || clock.timeout(left, hold.lease.changed()).await.is_err() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Gives up what has no place: nothing is to be released. Returns its id.
    fn forget(&mut self) -> String {
        let Some(mut hold) = self.hold.take() else { return String::new() };
        hold.is_released = true;
        std::mem::take(&mut hold.id)
    }
}

async fn ask(hold: &Hold, waits: bool) -> Result<Permits, Error> {
    let mut connection = hold.handle.shared().connection();
    let permits = [KeyPermits { member: hold.member.clone(), ids: vec![hold.id.clone()] }];
    let reply =
        scripts::permits(&mut connection, &hold.shard.keys, PermitOperation::Acquire { waits }, &permits)
            .await;
    reply.map_err(Error::redis)
}

/// The places that `id` asks for.
fn checked_count(id: &str) -> u64 {
    id.rsplit_once('-').and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
}

fn allowed(reply: &Permits, held: u64) -> Decision {
    Decision::Allowed { remaining: reply.limit.saturating_sub(held), capacity: reply.limit }
}

fn denied(reply: &Permits) -> Decision {
    let retry_after = Duration::from_micros(reply.wait).clamp(POLL, RETRY_AFTER);
    Decision::Denied { remaining: reply.limit.saturating_sub(reply.held), capacity: reply.limit, retry_after }
}
