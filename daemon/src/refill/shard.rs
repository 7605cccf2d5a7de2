//! One shard's share of a pass.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use redis::{RedisResult, aio::ConnectionLike};
use topup_wire::{
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, Period, Supply},
    scripts,
};

use crate::publish::{SLICE, carry_all};

/// One shard of a published token bucket, and when to look at it next.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Arc<ShardKeys>,
    /// The shortest time, in µs, from being credited to being due again: a tick, or a token's time if that is longer.
    pub(crate) period: u64,
    /// Of a calendar quota: when it was and will be filled.
    pub(crate) quota: Option<Period>,
    /// When to look at it next, in µs of Redis `TIME`.
    pub(crate) next: u64,
    /// Looked at since it was published.
    pub(crate) seen: bool,
    /// Being refilled now; a shard is never more than one pass behind.
    pub(crate) busy: bool,
    /// Buckets may still have to be carried over a change.
    pub(crate) former: bool,
    /// The clock stepped back: scores in the future have to be found.
    pub(crate) future: bool,
}

/// What a pass over one shard came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Buckets credited.
    pub(crate) credited: u64,
    /// When the next bucket can be due, in µs of Redis `TIME`.
    pub(crate) next: u64,
}

/// What to do in a pass over one shard.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) keys: Arc<ShardKeys>,
    pub(crate) period: u64,
    pub(crate) quota: Option<Period>,
    pub(crate) former: bool,
    pub(crate) future: bool,
    /// The instant of the pass, in µs of Redis `TIME`.
    pub(crate) now: u64,
    /// Set when the daemon stops: the slice at hand is the last.
    pub(crate) stop: Arc<AtomicBool>,
}

// === impl Shard ===

impl Shard {
    /// The shards of `limit` that a daemon refills: none when the limit needs no daemon.
    pub(crate) fn of(limit: &Limit) -> Vec<Self> {
        if limit.algorithm != Algorithm::TokenBucket {
            return Vec::new();
        }
        let tick = limit.tick.as_micros() as u64;
        let (period, quota) = match limit.terms.supply {
            Supply::Rate(rate) => {
                let (n, p) = rate.lowest_terms();
                (tick.max(p.div_ceil(n)), None)
            }
            Supply::Period(period) => (tick, Some(period)),
        };
        let shard = |number| Self {
            keys: Arc::new(ShardKeys::new(&limit.name, number)),
            period,
            quota,
            next: 0,
            seen: false,
            busy: false,
            former: true,
            future: true,
        };
        (0..limit.shards.get()).map(shard).collect()
    }
}

// === impl Errand ===

impl Errand {
    /// Credits every bucket of the shard that is due, slice by slice.
    pub(crate) async fn run<C>(self, connection: C) -> RedisResult<Done>
    where
        C: ConnectionLike + Clone,
    {
        let conn = &mut connection.clone();
        let mut done = Done::default();
        if self.former {
            carry_all(&connection, &self.keys).await?;
        }
        if self.future {
            let ahead = scripts::list_future(conn, &self.keys, self.now, SLICE).await?;
            if !ahead.is_empty() {
                scripts::refill(conn, &self.keys, &ahead).await?;
            }
        }
        let bound = self.bound();
        while !self.stop.load(Relaxed) {
            let members = scripts::list_due(conn, &self.keys, bound, SLICE).await?;
            if members.is_empty() {
                break;
            }
            let refilled = scripts::refill(conn, &self.keys, &members).await?;
            done.credited += refilled.credited;
            // Another daemon was here first, or there is no more: the rest can wait for the next pass.
            if refilled.credited == 0 || members.len() < SLICE {
                break;
            }
        }
        done.next = match self.quota {
            Some(period) if period.next > self.now => period.next,
            Some(_) => self.now + self.period,
            // A bucket that stops being full from now on is not due before a period has passed.
            None => {
                scripts::earliest(conn, &self.keys).await?.unwrap_or(self.now).min(self.now) + self.period
            }
        };
        Ok(done)
    }

    /// The latest instant up to which a bucket that is due is credited.
    fn bound(&self) -> u64 {
        match self.quota {
            Some(period) if period.next > 0 && self.now >= period.next => period.next - 1,
            Some(period) => period.since.saturating_sub(1),
            None => self.now.saturating_sub(self.period),
        }
    }
}
