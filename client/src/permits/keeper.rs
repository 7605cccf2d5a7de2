//! The keeper of a client's permits: one task for each shard that has any.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use topup_wire::keyspace::ShardKeys;

use super::shard::Shard;

/// The permits of a client.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The beginning of this client's ids: a random number.
    worker: String,
    /// Permits that were asked for so far.
    count: AtomicU64,
    /// By the name of the record.
    shards: Mutex<HashMap<String, Arc<Shard>>>,
}

// === impl Keeper ===

impl Default for Keeper {
    fn default() -> Self {
        let random = std::hash::RandomState::new().hash_one(std::process::id());
        Self { worker: format!("{random:016x}"), count: AtomicU64::default(), shards: Mutex::default() }
    }
}

impl Keeper {
    /// A number of a permit, and its id in Redis: no other permit has the same. It ends in the number of places.
    pub(super) fn new_id(&self, places: u64) -> (u64, String) {
        let number = self.count.fetch_add(1, Relaxed);
        (number, format!("{}.{number:x}-{places}", self.worker))
    }

    /// The number of `id`, if it is one of this client.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        let number = id.strip_prefix(&self.worker)?.strip_prefix('.')?.split('-').next()?;
        u64::from_str_radix(number, 16).ok()
    }

    /// The permits of the shard with these keys.
    pub(super) fn shard(&self, keys: &ShardKeys) -> Arc<Shard> {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = shards.get(&keys.record) {
            return shard.clone();
        }
        let shard = Arc::new(Shard::new(keys.clone()));
        shards.insert(keys.record.clone(), shard.clone());
        shard
    }

    /// Returns once no release waits to be sent.
    pub(crate) async fn flush(&self) {
        let shards: Vec<_> = {
            let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
            shards.values().cloned().collect()
        };
        for shard in shards {
            shard.flush().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_their_client_their_number_and_their_places() {
        let (one, other) = (Keeper::default(), Keeper::default());
        let ids: Vec<_> = (1..40).map(|places| one.new_id(places)).collect();
        for (number, id) in &ids {
            assert_eq!((one.number_of(id), other.number_of(id)), (Some(*number), None));
        }
        assert!(ids[3].1.ends_with("-4"), "{:?}", ids[3]);
        assert_eq!(one.number_of("junk"), None);
    }
}
