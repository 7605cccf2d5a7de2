//! The bucket cache: what a worker keeps of its buckets.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use topup_wire::limit::Key;

use super::{BucketEntry, LimitHandle, Limits};
use crate::error::Error;

/// Most buckets remembered by one client, unless told otherwise. A forgotten bucket costs its next take one native command
/// more.
pub(crate) const MOST_BUCKETS: usize = 65_536;
/// The memory is split so that tasks on different buckets do not wait for each other.
const PARTS: usize = 16;

/// One entry for each bucket of late.
#[derive(Debug)]
pub(crate) struct BucketCache {
    parts: [Mutex<Part>; PARTS],
    /// Half of what fits in a part.
    half: usize,
}

/// The buckets asked for since the turn before last. When half of those that fit have been asked for since the last turn,
/// the others are forgotten: nearly the least recently used, without a list to be rewritten at each look.
#[derive(Debug, Default)]
struct Part {
    young: Hashed,
    old: Hashed,
}

/// Buckets by the hash of their names. Two names of the same hash take turns.
type Hashed = HashMap<u64, Arc<BucketEntry>, BuildHasherDefault<Itself>>;

/// The hash of a hash.
#[derive(Debug, Default)]
struct Itself(u64);

// === impl BucketCache ===

impl BucketCache {
    /// Room for so many buckets, about.
    pub(crate) fn new(most: usize) -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { parts, half: (most / PARTS / 2).max(1) }
    }

    /// The entry of the bucket of `limit`, or of its `key`.
    ///
    /// # Errors
    /// When there can be no such bucket: nothing is remembered of it.
    pub(crate) fn get(
        &self,
        limits: &Limits,
        limit: &Arc<LimitHandle>,
        key: Option<&str>,
    ) -> Result<Arc<BucketEntry>, Error> {
        let hash = hash(limits, limit, key);
        let mut part = lock(&self.parts[hash as usize % PARTS]);
        if let Some(entry) = part.find(hash, self.half, |entry| entry.is_of(&limit.name, key)) {
            return Ok(entry);
        }
        if let Some(key) = key {
            Key::new(key)?;
        }
        let entry = Arc::new(BucketEntry::new(limit.clone(), key));
        part.put(hash, entry.clone(), self.half);
        Ok(entry)
    }

    /// Every entry there is.
    pub(crate) fn all(&self) -> Vec<Arc<BucketEntry>> {
        self.parts.iter().flat_map(|part| lock(part).all()).collect()
    }
}

/// The hash by which a bucket is found.
fn hash(limits: &Limits, limit: &LimitHandle, key: Option<&str>) -> u64 {
    let Some(key) = key else { return limit.hash };
    let mut hasher = limits.hashing().build_hasher();
    hasher.write_u64(limit.hash);
    hasher.write(key.as_bytes());
    hasher.finish()
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // A panic elsewhere leaves at worst what was known before.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Part ===

impl Part {
    fn find(
        &mut self,
        hash: u64,
        half: usize,
        is_it: impl FnOnce(&BucketEntry) -> bool,
    ) -> Option<Arc<BucketEntry>> {
        if let Some(entry) = self.young.get(&hash) {
            // Looked at before it is cloned: a count that is raised makes all that follows wait.
            return is_it(entry).then(|| entry.clone());
        }
        let entry = self.old.remove(&hash)?;
        let found = is_it(&entry).then(|| entry.clone());
        self.put(hash, entry, half);
        found
    }

    fn put(&mut self, hash: u64, entry: Arc<BucketEntry>, half: usize) {
        if self.young.len() >= half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, entry);
    }

    fn all(&self) -> Vec<Arc<BucketEntry>> {
        self.young.values().chain(self.old.values()).cloned().collect()
    }
}

// === impl Itself ===

impl Hasher for Itself {
    fn write(&mut self, _: &[u8]) {
        unreachable!("hashes are whole numbers");
    }

    fn write_u64(&mut self, hash: u64) {
        // The lowest bits are those by which the part was chosen, the same for all in it.
        self.0 = hash.rotate_right(PARTS.ilog2());
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
            // Those of each part are not exactly a sixteenth.
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
            assert_eq!(found.iter().filter(|entry| entry.is_of(&limit.parse().unwrap(), *key)).count(), 1);
        }
    }

    #[test]
    fn what_can_be_no_bucket_is_not_remembered() {
        let cache = cached(MOST_BUCKETS);
        assert!(get(&cache, "user", Some(&"k".repeat(257))).is_err());
        assert_eq!(remembered(&cache), 0);
    }
}
