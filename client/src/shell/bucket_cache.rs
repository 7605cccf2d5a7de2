//! The bucket cache: the entries of the buckets that a worker used last.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use topup_wire::limit::Key;

use super::{BucketEntry, LimitHandle, Limits};
use crate::error::Error;

/// Most buckets in the cache, unless set. The next take of a removed bucket costs Redis one native command more.
pub(crate) const MOST_BUCKETS: usize = 65_536;
/// Segments of the cache, each behind a lock of its own, so that tasks seldom wait for each other.
const SEGMENTS: usize = 16;

/// The entries of the buckets used last.
#[derive(Debug)]
pub(crate) struct BucketCache {
    segments: [Mutex<Segment>; SEGMENTS],
    /// Half of the entries that fit in a segment.
    half: usize,
}

/// Two generations of entries. A use moves an entry to `recent`. When `recent` is half of the segment, it becomes `older`,
/// and the entries there before are removed. The entries removed are nearly the least recently used ones, without a list to keep in order.
#[derive(Debug, Default)]
struct Segment {
    recent: Entries,
    older: Entries,
}

/// Entries by the hash of limit and key. Two buckets with the same hash share one entry in turns.
type Entries = HashMap<u64, Arc<BucketEntry>, BuildHasherDefault<IdentityHasher>>;

/// The hasher of keys that are hashes already.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

// === impl BucketCache ===

impl BucketCache {
    /// A cache for about `most` buckets.
    pub(crate) fn new(most: usize) -> Self {
        let segments = std::array::from_fn(|_| Mutex::default());
        Self { segments, half: (most / SEGMENTS / 2).max(1) }
    }

    /// The entry of the bucket of `limit`, or of its `key`; made if there is none.
    ///
    /// # Errors
    /// An invalid key. It leaves no entry.
    pub(crate) fn get(
        &self,
        limits: &Limits,
        limit: &Arc<LimitHandle>,
        key: Option<&str>,
    ) -> Result<Arc<BucketEntry>, Error> {
        let hash = hash(limits, limit, key);
        let mut segment = lock(&self.segments[hash as usize % SEGMENTS]);
        if let Some(entry) = segment.find(hash, self.half, |entry| entry.is_of(limit, key)) {
            return Ok(entry);
        }
        if let Some(key) = key {
            Key::new(key)?;
        }
        let entry = Arc::new(BucketEntry::new(limit.clone(), key));
        segment.put(hash, entry.clone(), self.half);
        Ok(entry)
    }

    /// All entries.
    pub(crate) fn all(&self) -> Vec<Arc<BucketEntry>> {
        self.segments.iter().flat_map(|segment| lock(segment).all()).collect()
    }
}

/// The hash of limit and key.
fn hash(limits: &Limits, limit: &LimitHandle, key: Option<&str>) -> u64 {
    let Some(key) = key else { return limit.hash };
    let mut hasher = limits.hashing().build_hasher();
    hasher.write_u64(limit.hash);
    hasher.write(key.as_bytes());
    hasher.finish()
}

fn lock(segment: &Mutex<Segment>) -> MutexGuard<'_, Segment> {
    // After a panic elsewhere, the entries are still valid.
    segment.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Segment ===

impl Segment {
    fn find(
        &mut self,
        hash: u64,
        half: usize,
        is_it: impl FnOnce(&BucketEntry) -> bool,
    ) -> Option<Arc<BucketEntry>> {
        if let Some(entry) = self.recent.get(&hash) {
            // Compared before it is cloned: the clone's atomic increment delays the reads after it.
            return is_it(entry).then(|| entry.clone());
        }
        let entry = self.older.remove(&hash)?;
        let found = is_it(&entry).then(|| entry.clone());
        self.put(hash, entry, half);
        found
    }

    fn put(&mut self, hash: u64, entry: Arc<BucketEntry>, half: usize) {
        if self.recent.len() >= half {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(hash, entry);
    }

    fn all(&self) -> Vec<Arc<BucketEntry>> {
        self.recent.values().chain(self.older.values()).cloned().collect()
    }
}

// === impl IdentityHasher ===

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("hashes are whole numbers");
    }

    fn write_u64(&mut self, hash: u64) {
        // The lowest bits have chosen the segment, so they are equal for all entries in it.
        self.0 = hash.rotate_right(SEGMENTS.ilog2());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache, and the limits of its buckets.
    struct Cached {
        buckets: BucketCache,
        limits: Limits,
    }

    fn cached(most: usize) -> Cached {
        Cached { buckets: BucketCache::new(most), limits: Limits::default() }
    }

    fn get(cache: &Cached, limit: &str, key: Option<&str>) -> Result<Arc<BucketEntry>, Error> {
        cache.buckets.get(&cache.limits, &cache.limits.get(limit.parse().unwrap()), key)
    }

    fn remembered(cache: &Cached) -> usize {
        cache.buckets.all().len()
    }

    #[test]
    fn no_more_buckets_are_remembered_than_said_and_the_last_half_for_sure() {
        for keys in [|i: usize| i.to_string(), |i| format!("{i}@example.com"), |i| format!("{i:08}/login")] {
            let cache = cached(MOST_BUCKETS);
            let mut last = Vec::new();
            for i in 0..2 * MOST_BUCKETS {
                last.push(get(&cache, "user", Some(&keys(i))).unwrap());
            }
            assert!(
                (MOST_BUCKETS * 2 / 5..=MOST_BUCKETS).contains(&remembered(&cache)),
                "keys like {}",
                keys(1)
            );
            // A segment does not get exactly a sixteenth of them.
            for (i, entry) in last.iter().enumerate().skip(2 * MOST_BUCKETS - MOST_BUCKETS * 2 / 5) {
                assert!(Arc::ptr_eq(&get(&cache, "user", Some(&keys(i))).unwrap(), entry), "{}", keys(i));
            }
        }
    }

    #[test]
    fn as_many_are_remembered_as_told() {
        for (most, few) in [(1, 32), (1_000, 1_000), (200_000, 200_000)] {
            let cache = cached(most);
            for i in 0..3 * most {
                get(&cache, "user", Some(&i.to_string())).unwrap();
            }
            assert!((most * 2 / 5..=few).contains(&remembered(&cache)), "{} of {most}", remembered(&cache));
        }
    }

    #[test]
    fn a_bucket_asked_for_again_and_again_is_not_forgotten() {
        let cache = cached(MOST_BUCKETS);
        let hot = get(&cache, "api", None).unwrap();
        for i in 0..3 * MOST_BUCKETS {
            get(&cache, "user", Some(&i.to_string())).unwrap();
            if i % 1_000 == 0 {
                assert!(Arc::ptr_eq(&hot, &get(&cache, "api", None).unwrap()));
            }
        }
    }

    #[test]
    fn buckets_are_told_apart_by_limit_and_key() {
        let cache = cached(MOST_BUCKETS);
        let names = [("a", None), ("a", Some("b")), ("ab", None), ("b", Some("a")), ("b", None)];
        let found: Vec<_> = names.iter().map(|(limit, key)| get(&cache, limit, *key).unwrap()).collect();
        for (i, (limit, key)) in names.iter().enumerate() {
            assert!(Arc::ptr_eq(&found[i], &get(&cache, limit, *key).unwrap()));
            let limit = cache.limits.get(limit.parse().unwrap());
            assert_eq!(found.iter().filter(|entry| entry.is_of(&limit, *key)).count(), 1);
        }
    }

    #[test]
    fn what_can_be_no_bucket_is_not_remembered() {
        let cache = cached(MOST_BUCKETS);
        assert!(get(&cache, "user", Some(&"k".repeat(257))).is_err());
        assert_eq!(remembered(&cache), 0);
    }
}
