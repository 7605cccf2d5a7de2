//! Tokens taken ahead that nobody came for, on their way back.
//!
//! Whoever took of the bucket meanwhile has learned of it without them, and would rely on its being below full for longer
//! than is true. What was in hand for a crowd is so little that everybody reckons with it. Of a lease it may be much: that
//! goes back only if nobody else has taken since, which the bucket itself tells, by the instant at which it is full; and not
//! once the bucket would have been full, had it still got them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use redis::RedisResult;
use tokio::task::JoinSet;
use topup_wire::{bucket::Operation, connection::Connection, scripts};

use super::{Slot, State};
use crate::{
    client::{Client, Shared},
    clock::Micros,
    published::Place,
};

/// Tokens of one bucket.
#[derive(Debug)]
pub(crate) struct Back {
    place: Place,
    tokens: u64,
    /// Of a lease: when the bucket is full, in µs of Redis, if nobody else has taken.
    full_at: Option<u64>,
}

// === impl Back ===

impl Back {
    /// Gives them back.
    async fn give(self, mut connection: Connection) -> RedisResult<()> {
        let Self { place, tokens, full_at } = self;
        let (keys, member) = (place.keys(), place.member());
        match full_at {
            Some(full_at) => scripts::put_back(&mut connection, keys, member, tokens, full_at).await?,
            None => scripts::settle(&mut connection, keys, member, Operation::Refund(tokens), false, 0).await?,
        };
        Ok(())
    }

    /// Gives back the tokens of several buckets. What cannot be given back within the deadline is lost to them, which are
    /// never more than they may give.
    pub(crate) async fn give_all(all: Vec<Self>, connection: Connection, deadline: Duration) {
        let mut giving = JoinSet::new();
        for back in all {
            giving.spawn(back.give(connection.clone()));
        }
        let _ = tokio::time::timeout(deadline, giving.join_all()).await;
    }
}

// === impl Slot ===

impl Slot {
    /// Whether something was taken ahead of which it is not known yet what comes after: a command is under way.
    pub(crate) fn is_unsettled(&self) -> bool {
        let state = self.lock();
        !state.flights.is_empty() && (!self.lease.is_empty() || state.reclaimed)
    }

    /// Takes out what was taken ahead and is not spent, to be given back.
    pub(crate) fn hand_back(&self, now: Micros) -> Option<Back> {
        if self.lease.is_empty() {
            return None;
        }
        let mut state = self.lock();
        let sound = self.lease.is_sound(now);
        let (tokens, place) = (self.lease.empty(), state.place.clone()?);
        state.appetite.gone(tokens);
        let known = std::mem::take(&mut state.known);
        let full_at = match place.published.limit.lease {
            None => None,
            Some(_) => Some(known.full_in_redis(place.published.terms)?),
        };
        (sound && tokens > 0).then_some(Back { place, tokens, full_at })
    }

    /// Has someone give back what is not spent in time.
    pub(super) fn set_reclaim(self: &Arc<Self>, state: &mut State, client: &Client) {
        if !std::mem::replace(&mut state.reclaimed, true) {
            client.shared().runtime.spawn(self.clone().reclaim(client.downgrade()));
        }
    }

    /// Nobody keeps a client for what is taken ahead: who drops the last one gives everything back.
    async fn reclaim(self: Arc<Self>, client: Weak<Shared>) {
        loop {
            let Some(shared) = client.upgrade() else { return };
            self.renew();
            let left = self.lease.until().saturating_sub(shared.clock.now());
            if left > 0 && !self.lease.is_empty() || self.is_unsettled() {
                drop(shared);
                tokio::time::sleep(Duration::from_micros(left.max(1))).await;
                continue;
            }
            if let Some(back) = self.hand_back(shared.clock.now()) {
                // Boxed: each bucket that tokens are taken ahead of has such a task, and hardly any has this to do.
                Box::pin(Back::give_all(vec![back], shared.connection(), shared.deadline)).await;
            }
            let mut state = self.lock();
            if self.lease.is_empty() {
                state.reclaimed = false;
                return;
            }
        }
    }
}
