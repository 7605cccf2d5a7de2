//! One call for a permit: the question to Redis, and the wait for the turn.

use std::{sync::Arc, time::Duration};

use topup_wire::scripts::{self, KeyPermits, PermitOperation, PermitState, Permits};

use super::{permit::Hold, shard::POLL};
use crate::{
    bucket::Bucket,
    decision::Decision,
    error::Error,
    machine::{Micros, PermitLease},
    shell::{BucketEntry, Published},
};

/// The longest `retry_after`: permits come back when their holders have finished, which nobody knows before.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A decision on permits, and the hold in Redis if there is one.
pub(super) type Acquired = (Decision, Option<Hold>);

/// A call that asks for a permit. Dropped before it is answered, it releases what it may have got.
pub(super) struct Asking<'a> {
    bucket: &'a Bucket,
    entry: &'a Arc<BucketEntry>,
    hold: Option<Hold>,
}

/// The outcome of a question.
pub(super) enum Asked {
    /// It holds, or nothing is left to be done.
    Decided(Acquired),
    /// The limit has changed since it was read.
    Changed,
    /// It waits.
    Waits(Permits),
}

// === impl Asking ===

impl<'a> Asking<'a> {
    pub(super) fn new(
        bucket: &'a Bucket,
        published: &Published,
        entry: &'a Arc<BucketEntry>,
        count: u64,
    ) -> Self {
        let (handle, shared) = (bucket.handle().clone(), bucket.handle().shared());
        let location = published.locate(entry);
        let (number, id) = shared.permits.new_id(count);
        let shard = shared.permits.shard(location.keys);
        let (_, lease) = tokio::sync::watch::channel(PermitLease::Forgotten);
        let (member, ttl) = (location.member.to_owned(), published.permit_ttl());
        let hold = Hold { handle, shard, number, member, id, lease, ttl, is_released: false };
        Self { bucket, entry, hold: Some(hold) }
    }

    /// Sends the question.
    pub(super) async fn ask(&mut self, waits: bool) -> Result<Asked, Error> {
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
    pub(super) async fn wait(&mut self, until: Micros) -> Result<Option<Hold>, Error> {
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

pub(super) fn allowed(reply: &Permits, held: u64) -> Decision {
    Decision::Allowed { remaining: reply.limit.saturating_sub(held), capacity: reply.limit }
}

pub(super) fn denied(reply: &Permits) -> Decision {
    let retry_after = Duration::from_micros(reply.wait).clamp(POLL, RETRY_AFTER);
    Decision::Denied { remaining: reply.limit.saturating_sub(reply.held), capacity: reply.limit, retry_after }
}
