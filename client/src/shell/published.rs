//! A limit as published, and where its buckets are.

use std::sync::Arc;

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    keyspace::{ShardKeys, shard_of},
    limit::{Algorithm, Limit, Mode},
    reply::{PublishedLimit, Settled},
    scripts::{self, PutIn},
};

use crate::{
    machine::{Adjust, Command, Kind, LeaseTerms, Terms},
    shell::clock::micros,
    tally::Tally,
};

/// A limit as published.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) limit: Limit,
    /// Its terms, as the machine knows them.
    pub(crate) terms: Terms,
    /// Counts changes of terms: a bucket at rest says under which it was written.
    pub(super) terms_id: u64,
    /// A change is announced: scripts only, until it is made.
    pub(crate) frozen: bool,
    /// The instant of Redis, in µs, before which an absent bucket is not full.
    pub(crate) absent_full_at: u64,
    /// The publication it was read under.
    pub(crate) epoch: u64,
    /// Where it is counted, while it is being tried out.
    pub(crate) tally: Option<Arc<Tally>>,
    shards: Box<[ShardKeys]>,
}

/// Where a bucket is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketLocation<'p> {
    pub(crate) published: &'p Published,
    pub(crate) keys: &'p ShardKeys,
    pub(crate) member: &'p str,
}

// === impl Published ===

impl Published {
    pub(crate) fn new(published: PublishedLimit, epoch: u64, tally: Option<Arc<Tally>>) -> Self {
        let PublishedLimit { limit, terms_id, frozen, absent_full_at } = published;
        let pace = limit.terms.supply.pace();
        let kind = match limit.algorithm {
            Algorithm::TokenBucket if limit.catch_up && pace.n > 0 => Kind::TwoForms,
            Algorithm::TokenBucket => Kind::Counting,
            _ => Kind::Scripted,
        };
        let terms = Terms {
            pace,
            capacity: limit.terms.capacity.get(),
            kind,
            // Neither in windows nor by ticks.
            foreseen: !limit.algorithm.has_windows() && (limit.catch_up || pace.n == 0),
            lease: limit.lease.map(|lease| LeaseTerms { max: lease.max(), ttl: micros(lease.ttl()) }),
        };
        let shards = (0..limit.shards.get()).map(|shard| ShardKeys::new(&limit.name, shard)).collect();
        Self { terms, terms_id, frozen, absent_full_at, tally, shards, limit, epoch }
    }

    /// Where the bucket of `key` is.
    pub(crate) fn locate<'p>(&'p self, key: Option<&'p str>) -> BucketLocation<'p> {
        let member = key.unwrap_or_default();
        let shard = if self.shards.len() > 1 { shard_of(member, self.limit.shards).into() } else { 0 };
        BucketLocation { published: self, keys: &self.shards[shard], member }
    }

    /// What the limit does to `key`.
    pub(crate) fn mode(&self, key: Option<&str>) -> Mode {
        self.limit.rollout.mode_for(key)
    }
}

// === impl BucketLocation ===

impl BucketLocation<'_> {
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.published.limit.algorithm
    }

    /// Appends `command`: how many replies it has.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, command: Command) -> usize {
        let state = self.keys.state(self.algorithm(), self.member);
        let Published { terms_id, terms, .. } = self.published;
        match command {
            Command::FirstTake { count, full_at } => {
                scripts::encode_first_take(out, &state, *terms_id, terms.pace, count, full_at);
            }
            Command::TakeAtRest { count, first_at } => {
                return scripts::encode_take_at_rest(out, &state, *terms_id, terms.pace, count, first_at);
            }
            Command::Decrement { by } => scripts::encode_decrement(out, &state, by),
            Command::Settle { operation, may_count, doubt } => {
                scripts::encode_settle(out, self.algorithm(), self.keys, &state, operation, may_count, doubt);
            }
        }
        1
    }

    /// Appends a correction: how many replies it has.
    pub(crate) fn encode_adjust(&self, out: &mut Vec<u8>, adjust: &Adjust) -> usize {
        let state = self.keys.state(self.algorithm(), self.member);
        let &Adjust { give, later, full_at, .. } = adjust;
        scripts::encode_correction(out, &state, self.published.terms.pace, give, later, full_at)
    }

    /// Sends a bare command by itself: the tokens left.
    pub(crate) async fn decrement(&self, connection: &mut Connection, by: u64) -> RedisResult<i64> {
        let state = self.keys.state(self.algorithm(), self.member);
        scripts::decrement(connection, &state, by).await
    }

    /// Sends a first take by itself: whether the bucket was full.
    pub(crate) async fn first_take(&self, connection: &mut Connection, count: u64) -> RedisResult<bool> {
        let state = self.keys.state(self.algorithm(), self.member);
        let Published { terms_id, terms, .. } = self.published;
        scripts::first_take(connection, &state, *terms_id, terms.pace, count).await
    }

    /// Puts tokens into the bucket.
    pub(crate) async fn put_in(&self, connection: &mut Connection, request: PutIn) -> RedisResult<Settled> {
        scripts::put_in(connection, self.algorithm(), self.keys, self.member, request).await
    }

    /// Sends `operation` by itself, to the script of `algorithm`.
    pub(crate) async fn operate(
        &self,
        connection: &mut Connection,
        algorithm: Algorithm,
        operation: Operation,
        may_count: bool,
        doubt: u64,
    ) -> RedisResult<Settled> {
        scripts::settle(connection, algorithm, self.keys, self.member, operation, may_count, doubt).await
    }
}
