//! The buckets this worker has to do with.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use foldhash::quality::RandomState;
use topup_wire::limit::{Key, LimitName};

use crate::{error::Error, slot::Slot};

/// Buckets remembered by one client, at most, unless told otherwise: about 45 MB. A bucket forgotten costs one script at its
/// next take.
pub(crate) const MOST_BUCKETS: usize = 65_536;
/// The memory is split so that tasks on different buckets do not wait for each other.
const PARTS: usize = 16;

/// One slot for each bucket of late.
#[derive(Debug)]
pub(crate) struct Slots {
    parts: [Mutex<Part>; PARTS],
    hashing: RandomState,
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

/// The name of a limit, hashed: its buckets differ from each other by no more than their keys.
#[derive(Debug)]
pub(crate) struct HashedName {
    pub(crate) name: LimitName,
    hash: u64,
}

/// Slots by the hash of their names. Two names of the same hash take turns.
type Hashed = HashMap<u64, Arc<Slot>, BuildHasherDefault<Itself>>;

/// The hash of a hash.
#[derive(Debug, Default)]
struct Itself(u64);

// === impl Slots ===

impl Slots {
    /// Room for so many buckets, about.
    pub(crate) fn new(most: usize) -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { parts, hashing: RandomState::default(), half: (most / PARTS / 2).max(1) }
    }

    /// The name by which the buckets of a limit are looked up.
    pub(crate) fn name(&self, name: LimitName) -> Arc<HashedName> {
        Arc::new(HashedName { name, hash: self.hashing.hash_one(name.as_str()) })
    }

    /// The slot of the bucket of `limit`, or of its `key`.
    ///
    /// # Errors
    /// When there can be no such bucket: nothing is remembered of it.
    pub(crate) fn get(&self, limit: &Arc<HashedName>, key: Option<&str>) -> Result<Arc<Slot>, Error> {
        let hash = self.hash(limit, key);
        let mut part = lock(&self.parts[hash as usize % PARTS]);
        if let Some(slot) = part.find(hash, self.half, |slot| slot.is_named(limit, key)) {
            return Ok(slot);
        }
        if let Some(key) = key {
            Key::new(key)?;
        }
        let slot = Arc::new(Slot::new(limit.clone(), key));
        part.put(hash, slot.clone(), self.half);
        Ok(slot)
    }

    fn hash(&self, limit: &HashedName, key: Option<&str>) -> u64 {
        let Some(key) = key else { return limit.hash };
        let mut hasher = self.hashing.build_hasher();
        hasher.write_u64(limit.hash);
        hasher.write(key.as_bytes());
        hasher.finish()
    }

    /// Every slot there is.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.parts.iter().flat_map(|part| lock(part).all()).collect()
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // A panic elsewhere leaves at worst what was known before.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Part ===

impl Part {
    fn find(&mut self, hash: u64, half: usize, is_it: impl FnOnce(&Slot) -> bool) -> Option<Arc<Slot>> {
        if let Some(slot) = self.young.get(&hash) {
            // Looked at before it is cloned: a count that is raised makes all that follows wait.
            return is_it(slot).then(|| slot.clone());
        }
        let slot = self.old.remove(&hash)?;
        let found = is_it(&slot).then(|| slot.clone());
        self.put(hash, slot, half);
        found
    }

    fn put(&mut self, hash: u64, slot: Arc<Slot>, half: usize) {
        if self.young.len() >= half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, slot);
    }

    fn all(&self) -> Vec<Arc<Slot>> {
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

    fn name(limit: &str) -> LimitName {
        limit.parse().unwrap()
    }

    fn get(slots: &Slots, limit: &str, key: Option<&str>) -> Result<Arc<Slot>, Error> {
        slots.get(&slots.name(name(limit)), key)
    }

    fn remembered(slots: &Slots) -> usize {
        slots.all().len()
    }

    #[test]
    fn no_more_buckets_are_remembered_than_said_and_the_last_half_for_sure() {
        for keys in [|i: usize| i.to_string(), |i| format!("{i}@example.com"), |i| format!("{i:08}/login")] {
            let slots = Slots::new(MOST_BUCKETS);
            let mut last = Vec::new();
            for i in 0..2 * MOST_BUCKETS {
                last.push(get(&slots, "user", Some(&keys(i))).unwrap());
            }
            assert!(
                (MOST_BUCKETS * 2 / 5..=MOST_BUCKETS).contains(&remembered(&slots)),
                "keys like {}",
                keys(1)
            );
            // Those of each part are not exactly a sixteenth.
            for (i, slot) in last.iter().enumerate().skip(2 * MOST_BUCKETS - MOST_BUCKETS * 2 / 5) {
                assert!(Arc::ptr_eq(&get(&slots, "user", Some(&keys(i))).unwrap(), slot), "{}", keys(i));
            }
        }
    }

    #[test]
    fn as_many_are_remembered_as_told() {
        for (most, few) in [(1, 32), (1_000, 1_000), (200_000, 200_000)] {
            let slots = Slots::new(most);
            for i in 0..3 * most {
                get(&slots, "user", Some(&i.to_string())).unwrap();
            }
            assert!((most * 2 / 5..=few).contains(&remembered(&slots)), "{} of {most}", remembered(&slots));
        }
    }

    #[test]
    fn a_bucket_asked_for_again_and_again_is_not_forgotten() {
        let slots = Slots::new(MOST_BUCKETS);
        let hot = get(&slots, "api", None).unwrap();
        for i in 0..3 * MOST_BUCKETS {
            get(&slots, "user", Some(&i.to_string())).unwrap();
            if i % 1_000 == 0 {
                assert!(Arc::ptr_eq(&hot, &get(&slots, "api", None).unwrap()));
            }
        }
    }

    #[test]
    fn buckets_are_told_apart_by_limit_and_key() {
        let slots = Slots::new(MOST_BUCKETS);
        let names = [("a", None), ("a", Some("b")), ("ab", None), ("b", Some("a")), ("b", None)];
        let found: Vec<_> = names.iter().map(|(limit, key)| get(&slots, limit, *key).unwrap()).collect();
        for (i, (limit, key)) in names.iter().enumerate() {
            assert!(Arc::ptr_eq(&found[i], &get(&slots, limit, *key).unwrap()));
            assert_eq!(found.iter().filter(|slot| slot.is_of(&name(limit), *key)).count(), 1);
        }
    }

    #[test]
    fn what_can_be_no_bucket_is_not_remembered() {
        let slots = Slots::new(MOST_BUCKETS);
        assert!(get(&slots, "user", Some(&"k".repeat(257))).is_err());
        assert_eq!(remembered(&slots), 0);
    }
}
