//! Requests of holds to Redis.

use std::{sync::Arc, time::Duration};

use topup_wire::{
    reply::{Settled, Verdict},
    scripts::{self, HoldOf, HoldOutcome, HoldReply, Use},
};

use super::{BucketEntry, Handle, Published, deadline::Deadline, exceeds};
use crate::{error::Error, machine::Event};

/// Attempts at most, before a limit counts as unknown.
const MOST_ATTEMPTS: u32 = 4;

/// A hold, without its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldRef<'a> {
    pub(crate) id: &'a str,
    /// Tokens taken, or to take.
    pub(crate) tokens: u64,
    /// Whether Redis remembers it.
    pub(crate) is_remembered: bool,
}

/// A request of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HoldRequest {
    Reserve,
    /// Its tokens are taken.
    Remember,
    /// Settle at this number of used tokens.
    Settle(u64),
    Abandon,
}

// === impl BucketEntry ===

impl BucketEntry {
    /// Takes the tokens of `hold`, and has Redis remember it.
    pub(crate) async fn reserve_hold(
        self: &Arc<Self>,
        hold: HoldRef<'_>,
        handle: &Handle,
    ) -> Result<Settled, Error> {
        let sent = handle.shared().clock.now();
        let settled = self.request_hold(hold, HoldRequest::Reserve, handle, None).await?.settled;
        match settled.verdict {
            Verdict::ExceedsCapacity => return Err(exceeds(self, hold.tokens, settled.capacity)),
            Verdict::Denied => {
                self.step(Event::Heard { settled, count: hold.tokens, sent }, handle, None);
            }
            _ => {}
        }
        Ok(settled)
    }

    /// Sends `request`, in as many steps as it takes. A wait between two of them puts off `deadline`.
    pub(crate) async fn request_hold(
        self: &Arc<Self>,
        hold: HoldRef<'_>,
        request: HoldRequest,
        handle: &Handle,
        deadline: Option<&Deadline<'_>>,
    ) -> Result<HoldReply, Error> {
        let clock = &handle.shared().clock;
        let mut connection = handle.shared().connection();
        let mut attempt = 1;
        while attempt <= MOST_ATTEMPTS {
            let published = self.read(handle).await?;
            let location = published.locate(self);
            // A change of algorithm reaches one shard after the other.
            let own = match attempt {
                1 => None,
                _ => scripts::algorithm_of(&mut connection, location.keys)
                    .await
                    .map_err(|error| self.limit().unreadable(Error::of_record(self.name(), error)))?,
            };
            let HoldRef { id, tokens, is_remembered } = hold;
            let (keys, member) = (location.keys, location.member);
            let algorithm = own.unwrap_or(location.algorithm());
            let hold = HoldOf { algorithm, keys, member, id, tokens, is_remembered };
            let in_hand_for = if clock.is_manual() { Duration::ZERO } else { published.limit.in_hand_for() };
            let reply = send(&mut connection, hold, request, &published, in_hand_for).await;
            match reply {
                // Nothing was done: the bucket has moved to a node without the script.
                Err(error) if scripts::is_not_loaded(&error) && attempt < MOST_ATTEMPTS => attempt += 1,
                Err(error) => return Err(Error::redis(error)),
                Ok(HoldReply { outcome: HoldOutcome::Unknown, .. }) => {
                    self.limit().invalidate();
                    attempt += 1;
                }
                Ok(HoldReply { outcome: HoldOutcome::Again, settled, .. }) => {
                    let wait = Duration::from_micros(settled.wait);
                    match deadline {
                        Some(deadline) => deadline.wait(wait).await,
                        None => clock.sleep(wait).await,
                    }
                }
                Ok(reply) => return Ok(reply),
            }
        }
        Err(Error::LimitLost { limit: self.name().to_string() })
    }
}

async fn send(
    connection: &mut topup_wire::connection::Connection,
    hold: HoldOf<'_>,
    request: HoldRequest,
    published: &Published,
    in_hand_for: Duration,
) -> redis::RedisResult<HoldReply> {
    let holds = published.limit.holds;
    match request {
        HoldRequest::Reserve => scripts::reserve_hold(connection, hold, holds.ttl()).await,
        HoldRequest::Remember => scripts::remember_hold(connection, hold, holds.ttl()).await,
        HoldRequest::Settle(used) => {
            let used = Use { used, max_debt: holds.max_debt(), in_hand_for };
            scripts::settle_hold(connection, hold, used).await
        }
        HoldRequest::Abandon => scripts::abandon_hold(connection, hold, in_hand_for).await,
    }
}
