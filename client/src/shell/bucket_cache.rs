//! The bucket cache: the entries of the buckets that a worker used last.

use std::{
    hash::{BuildHasher, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hashbrown::HashTable;
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
    recent: HashTable<Arc<BucketEntry>>,
    older: HashTable<Arc<BucketEntry>>,
}

/// A bucket, and its hash.
struct Sought<'a> {
    limit: &'a Arc<LimitHandle>,
    key: Option<&'a str>,
    hash: u64,
    limits: &'a Limits,
}

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
        let sought = Sought { limit, key, hash: hash(limits, limit, key), limits };
        let mut segment = lock(&self.segments[segment_of(sought.hash)]);
        if let Some(entry) = segment.find(&sought, self.half) {
            return Ok(entry);
        }
        if let Some(key) = key {
            Key::new(key)?;
        }
        let entry = BucketEntry::new(limit.clone(), key);
        segment.put(&sought, entry.clone(), self.half);
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

/// The segment of a hash. A table finds entries by the lowest and the highest bits, which differ within a segment.
const fn segment_of(hash: u64) -> usize {
    (hash >> 32) as usize % SEGMENTS
}

fn lock(segment: &Mutex<Segment>) -> MutexGuard<'_, Segment> {
    // After a panic elsewhere, the entries are still valid.
    segment.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Segment ===

impl Segment {
    fn find(&mut self, sought: &Sought<'_>, half: usize) -> Option<Arc<BucketEntry>> {
        if let Some(entry) = self.recent.find(sought.hash, |entry| sought.is(entry)) {
            return Some(entry.clone());
        }
        let older = self.older.find_entry(sought.hash, |entry| sought.is(entry)).ok()?;
        let (entry, _) = older.remove();
        self.put(sought, entry.clone(), half);
        Some(entry)
    }

    fn put(&mut self, sought: &Sought<'_>, entry: Arc<BucketEntry>, half: usize) {
        if self.recent.len() >= half {
            // As many are to come. To grow would hash every key again.
            self.older = std::mem::replace(&mut self.recent, HashTable::with_capacity(half));
        }
        let hash_of = |entry: &Arc<BucketEntry>| hash(sought.limits, entry.limit(), entry.key());
        self.recent.insert_unique(sought.hash, entry, hash_of);
    }

    fn all(&self) -> Vec<Arc<BucketEntry>> {
        self.recent.iter().chain(&self.older).cloned().collect()
    }
}

// === impl Sought ===

impl Sought<'_> {
    fn is(&self, entry: &BucketEntry) -> bool {
        entry.is_of(self.limit, self.key)
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
