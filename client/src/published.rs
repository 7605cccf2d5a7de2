//! Limits as published, read once per generation.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use topup_wire::{
    bucket::Pace,
    keyspace::{ShardKeys, shard_of},
    limit::{Key, Limit},
};

use crate::error::Error;

/// A published limit and where its buckets are.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) limit: Limit,
    pub(crate) pace: Pace,
    /// What was published when it was read.
    pub(crate) epoch: u64,
    shards: Vec<ShardKeys>,
}

/// The limits read so far.
#[derive(Debug, Default)]
pub(crate) struct Cache(RwLock<HashMap<String, Arc<Published>>>);

// === impl Published ===

impl Published {
    pub(crate) fn new(limit: Limit, epoch: u64) -> Self {
        let (n, p) = limit.terms.supply.lowest_terms();
        let shards = (0..limit.shards.get()).map(|shard| ShardKeys::new(&limit.name, shard)).collect();
        Self { pace: Pace { n, p }, shards, limit, epoch }
    }

    /// The shard and member of the bucket for `key`.
    pub(crate) fn place<'a>(&self, key: Option<&'a str>) -> Result<(&ShardKeys, &'a str), Error> {
        let limit = || self.limit.name.to_string();
        match (self.limit.keyed, key) {
            (true, None) => Err(Error::KeyRequired { limit: limit() }),
            (false, Some(_)) => Err(Error::KeyUnexpected { limit: limit() }),
            (false, None) => Ok((&self.shards[0], "")),
            (true, Some(key)) => {
                let key = Key::new(key)?.as_str();
                Ok((&self.shards[usize::from(shard_of(key, self.limit.shards))], key))
            }
        }
    }
}

// === impl Cache ===

impl Cache {
    pub(crate) fn get(&self, name: &str, epoch: u64) -> Option<Arc<Published>> {
        let read = self.0.read().unwrap_or_else(PoisonError::into_inner);
        read.get(name).filter(|published| published.epoch == epoch).cloned()
    }

    pub(crate) fn put(&self, published: Arc<Published>) {
        let mut write = self.0.write().unwrap_or_else(PoisonError::into_inner);
        write.insert(published.limit.name.to_string(), published);
    }

    pub(crate) fn forget(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
