//! Limits as published, read once per generation, and where their buckets are.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use redis::RedisResult;
use topup_wire::{
    bucket::{Operation, Record},
    connection::Connection,
    keyspace::{ShardKeys, shard_of},
    limit::{Algorithm, Key, Limit, Mode},
    scripts,
};

use crate::{clock::micros, error::Error, known::Terms, tally::Tally};

/// A published limit and where its buckets are.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) limit: Limit,
    pub(crate) terms: Terms,
    /// What was published when it was read.
    pub(crate) epoch: u64,
    /// Where it is counted, while it is being tried out.
    pub(crate) tally: Option<Arc<Tally>>,
    shards: Vec<ShardKeys>,
}

/// Where a bucket is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) published: Arc<Published>,
    /// What the limit does to this key.
    pub(crate) mode: Mode,
    shard: usize,
    /// The key of its state in Redis; its member of the due index is the end of it.
    state: Box<str>,
    mislaid: bool,
}

/// The limits read so far.
#[derive(Debug, Default)]
pub(crate) struct Cache(RwLock<HashMap<String, Arc<Published>>>);

// === impl Published ===

impl Published {
    pub(crate) fn new(limit: Limit, epoch: u64, tally: Option<Arc<Tally>>) -> Self {
        // Tokens of the pure form come at ticks, and those of a quota at once: there is no leeway in them.
        let record = Record::new(&limit, 0);
        let eased = limit.catch_up && record.pace.n > 0;
        let (tick, leeway) = if eased { (micros(limit.tick), record.ease()) } else { (0, 0) };
        let shards = (0..limit.shards.get()).map(|shard| ShardKeys::new(&limit.name, shard)).collect();
        let terms = Terms {
            pace: record.pace,
            // Neither in windows nor by ticks.
            foreseen: !limit.algorithm.has_windows() && (limit.catch_up || record.pace.n == 0),
            tick,
            leeway,
            stay: record.stay(),
        };
        Self { terms, tally, shards, limit, epoch }
    }

    /// Whether buckets are counters, so that `DECR` takes from them.
    pub(crate) fn is_counted(&self) -> bool {
        self.limit.algorithm == Algorithm::TokenBucket
    }
}

// === impl Place ===

impl Place {
    /// The bucket for `key`.
    pub(crate) fn new(published: Arc<Published>, key: Option<&str>) -> Result<Self, Error> {
        let limit = || published.limit.name.to_string();
        let (shard, member) = match (published.limit.keyed, key) {
            (true, None) => return Err(Error::KeyRequired { limit: limit() }),
            (false, Some(_)) => return Err(Error::KeyUnexpected { limit: limit() }),
            (false, None) => (0, ""),
            (true, Some(key)) => {
                let key = Key::new(key)?.as_str();
                (usize::from(shard_of(key, published.limit.shards)), key)
            }
        };
        let keys = &published.shards[shard];
        let state = keys.state(published.limit.algorithm, member);
        let mode = published.limit.rollout.mode_for(key);
        Ok(Self { mode, shard, state: state.into(), mislaid: false, published })
    }

    pub(crate) fn keys(&self) -> &ShardKeys {
        &self.published.shards[self.shard]
    }

    /// No epoch finds it any more.
    pub(crate) fn mislay(&mut self) {
        self.mislaid = true;
    }

    /// Whether it is still there, for all that is known under `epoch`.
    pub(crate) fn is_current(&self, epoch: u64) -> bool {
        self.published.epoch == epoch && !self.mislaid
    }

    /// Whose bucket it is, of a keyed limit.
    pub(crate) fn key(&self) -> Option<&str> {
        self.published.limit.keyed.then(|| self.member())
    }

    /// Its member of the due index.
    pub(crate) fn member(&self) -> &str {
        self.keys().member(&self.state)
    }

    /// Appends the command that takes `by` tokens from its counter unseen.
    pub(crate) fn ask_decrement(&self, out: &mut Vec<u8>, by: u64) {
        scripts::ask_decrement(out, &self.state, by);
    }

    /// The same command by itself.
    pub(crate) async fn decrement(&self, connection: &mut Connection, by: u64) -> RedisResult<i64> {
        scripts::decrement(connection, &self.state, by).await
    }

    /// Appends the command that settles it.
    pub(crate) fn ask(&self, out: &mut Vec<u8>, operation: Operation) {
        scripts::ask(out, self.published.limit.algorithm, self.keys(), &self.state, operation, false, 0);
    }
}

// === impl Cache ===

impl Cache {
    pub(crate) fn get(&self, name: &str, epoch: u64) -> Option<Arc<Published>> {
        let read = self.0.read().unwrap_or_else(PoisonError::into_inner);
        read.get(name).filter(|published| published.epoch == epoch).cloned()
    }

    /// What was read last, however long ago.
    pub(crate) fn last(&self, name: &str) -> Option<Arc<Published>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn put(&self, published: Arc<Published>) {
        let mut write = self.0.write().unwrap_or_else(PoisonError::into_inner);
        write.insert(published.limit.name.to_string(), published);
    }

    pub(crate) fn forget(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
