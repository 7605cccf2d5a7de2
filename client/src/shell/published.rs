//! A limit as published, and the locations of its buckets.

use std::{ops::Deref, time::Duration};

use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::{KeyHash, ShardKeys},
    limit::{Algorithm, Mode, Supply},
    namespace::Namespace,
    reply::{PublishedLimit, PutInReply, Settled},
    scripts::{self, PutIn},
};

use super::BucketEntry;
use crate::{
    machine::{ChangeAhead, Command, Correction, Kind, LeaseTerms, Micros, Terms, WindowTerms},
    shell::{clock::micros, deadline::Deadline},
};

/// Shorter fixed windows, in µs, are of scripts alone: many takes begin one, by two commands, and the bounds of Redis `TIME`
/// often do not tell which one.
const LEAST_WINDOW: Micros = 100_000;

/// A limit as published, with all that follows from its record.
#[derive(Debug)]
pub(crate) struct Published {
    read: PublishedLimit,
    /// Its terms for the machine.
    pub(crate) terms: Terms,
    /// The epoch in which it was read.
    pub(crate) epoch: u64,
    shards: Box<[ShardKeys]>,
}

/// The location of a bucket: limit record, shard and key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketLocation<'p> {
    published: &'p Published,
    pub(crate) keys: &'p ShardKeys,
    pub(crate) member: &'p str,
}

// === impl Published ===

impl Deref for Published {
    type Target = PublishedLimit;

    fn deref(&self) -> &PublishedLimit {
        &self.read
    }
}

impl Published {
    pub(crate) fn new(read: PublishedLimit, namespace: Namespace, epoch: u64) -> Self {
        let limit = &read.limit;
        let pace = limit.terms.supply.pace();
        let kind = match limit.algorithm {
            Algorithm::TokenBucket if limit.catch_up && pace.n > 0 => Kind::TwoForms,
            Algorithm::TokenBucket => Kind::Counting,
            Algorithm::FixedWindow => match limit.terms.supply {
                Supply::Windows(windows) if windows.longest() >= LEAST_WINDOW => {
                    Kind::Window(WindowTerms { length: windows.longest(), aligned: windows.aligned() })
                }
                _ => Kind::Scripted,
            },
            _ => Kind::Scripted,
        };
        let terms = Terms {
            id: read.terms_id,
            pace,
            // No take is of permits: each is more than a bucket holds.
            capacity: if limit.algorithm.has_permits() { 0 } else { limit.terms.capacity.get() },
            kind,
            // Neither in windows nor by ticks, nor of loans.
            foreseen: !limit.algorithm.has_windows()
                && !limit.algorithm.has_parts()
                && (limit.catch_up || pace.n == 0),
            reserves: limit.reserves(),
            lease: limit.lease.map(|lease| LeaseTerms { max: lease.max(), ttl: micros(lease.ttl()) }),
            change: limit.schedule.first_at().map(|at| ChangeAhead { at, full_by: limit.schedule.full_by() }),
            earlier_until: read.earlier_until,
        };
        let keys = |shard| ShardKeys::new(namespace, &limit.name, shard);
        let shards = (0..limit.shards.get()).map(keys).collect();
        Self { terms, epoch, shards, read }
    }

    /// The same, of a worker that knew the limit as `before` until the instant `now` of Redis `TIME`, in µs.
    pub(crate) fn after(mut self, before: Option<&Self>, now: u64) -> Self {
        self.terms = self.terms.after(before.map(|before| &before.terms), now);
        self
    }

    /// The location of the bucket of `entry`.
    pub(crate) fn locate<'p>(&'p self, entry: &'p BucketEntry) -> BucketLocation<'p> {
        let member = entry.key().unwrap_or_default();
        BucketLocation { published: self, keys: self.shard(entry.key_hash()), member }
    }

    /// The keys of the shard with the bucket of a key.
    pub(crate) fn shard(&self, key: KeyHash) -> &ShardKeys {
        let shard = if self.shards.len() > 1 { key.shard(self.limit.shards).into() } else { 0 };
        &self.shards[shard]
    }

    /// Whether a bucket never holds `count` tokens. The schedule may have raised the capacity by `now` of Redis, in µs.
    pub(crate) fn refuses(&self, count: u64, now: u64) -> bool {
        let mut raised = self.limit.schedule.changes().take_while(|change| change.at <= now);
        count > self.terms.capacity && !raised.any(|change| count <= change.capacity.get())
    }

    /// The time for which a permit is good after a renewal, in µs; 0 where the limit has none.
    pub(crate) fn permit_ttl(&self) -> Micros {
        if let Supply::Permits(ttl) = self.limit.terms.supply { ttl.micros() } else { 0 }
    }

    /// Whether keys have plans, or had some before.
    pub(crate) fn has_plans(&self) -> bool {
        !self.limit.plans.is_empty() || !self.plans_before.is_empty()
    }

    /// The limit's mode for `key`.
    pub(crate) fn mode(&self, key: Option<&str>) -> Mode {
        self.limit.rollout.mode_for(key)
    }
}

// === impl BucketLocation ===

impl BucketLocation<'_> {
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.published.limit.algorithm
    }

    /// Appends `command`. Returns its number of replies.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, command: Command, least_rights: bool) -> usize {
        let state = self.state();
        let (terms_id, terms) = (self.published.terms_id, &self.published.terms);
        match command {
            Command::FirstTake { count, full_at } => {
                scripts::encode_first_take(out, &state, terms_id, terms.pace, count, full_at);
            }
            Command::TakeAtRest { count, first_at } => {
                return scripts::encode_take_at_rest(out, &state, terms_id, terms.pace, count, first_at);
            }
            Command::TakeInWindow { count, begins } => {
                return scripts::encode_window_take(out, &state, count, begins);
            }
            Command::Decrement { by, .. } => scripts::encode_decrement(out, &state, by),
            Command::Settle { operation, may_count, in_doubt } => {
                scripts::encode_settle(
                    out,
                    self.algorithm(),
                    self.keys,
                    &state,
                    operation,
                    may_count,
                    in_doubt,
                    least_rights,
                );
            }
        }
        1
    }

    /// Appends a correction. Returns its number of replies.
    pub(crate) fn encode_correction(&self, out: &mut Vec<u8>, correction: &Correction) -> usize {
        let Terms { pace, .. } = self.published.terms;
        let (put_back, later) = correction.shift();
        let lives_until = self.published.terms.lives_until(correction.lives_until());
        scripts::encode_correction(out, &self.state(), pace, put_back, later, lives_until)
    }

    /// Puts tokens into the bucket, and waits as Redis tells.
    pub(crate) async fn put_in(
        &self,
        connection: &mut Connection,
        mut request: PutIn,
        deadline: &Deadline<'_>,
    ) -> RedisResult<Settled> {
        if deadline.clock().is_manual() {
            // The clock of a test stands still while a call waits.
            request.in_hand_for = Duration::ZERO;
        }
        loop {
            match scripts::try_put_in(connection, self.algorithm(), self.keys, self.member, request).await? {
                PutInReply::Done(settled) => return Ok(settled),
                PutInReply::Again(settled) => deadline.wait(Duration::from_micros(settled.wait)).await,
            }
        }
    }

    /// The name of the bucket's key.
    pub(super) fn state(&self) -> String {
        self.keys.state(self.algorithm(), self.member)
    }
}
