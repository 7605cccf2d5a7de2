//! The buckets this worker has to do with.

use std::{
    cell::RefCell,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use topup_wire::limit::{Key, LimitName};

use crate::{error::Error, slot::Slot};

/// Buckets remembered by one client, at most: about 40 MB. A bucket forgotten costs one script at its next take.
pub(crate) const MOST_BUCKETS: usize = 65_536;
/// The memory is split so that tasks on different buckets do not wait for each other.
const PARTS: usize = 16;

/// One slot for each bucket of late; the least recently used are forgotten.
#[derive(Debug)]
pub(crate) struct Slots {
    parts: [Mutex<LruCache<Box<str>, Arc<Slot>>>; PARTS],
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new() -> Self {
        let part = NonZeroUsize::new(MOST_BUCKETS / PARTS).unwrap_or(NonZeroUsize::MIN);
        Self { parts: std::array::from_fn(|_| Mutex::new(LruCache::new(part))) }
    }

    /// The slot of the bucket of `limit`, or of its `key`.
    ///
    /// # Errors
    /// When there can be no such bucket: nothing is remembered of it.
    pub(crate) fn get(&self, limit: &str, key: Option<&str>) -> Result<Arc<Slot>, Error> {
        let Some(key) = key else { return self.named(limit, limit, None) };
        Key::new(key)?;
        // Asked for with each take: a text of its own would take longer to make than to look up.
        thread_local!(static NAME: RefCell<String> = const { RefCell::new(String::new()) });
        NAME.with_borrow_mut(|name| {
            name.clear();
            // Neither part of it holds a 0.
            name.extend([limit, "\0", key]);
            self.named(name, limit, Some(key))
        })
    }

    fn named(&self, name: &str, limit: &str, key: Option<&str>) -> Result<Arc<Slot>, Error> {
        let mut part = self.part(name);
        if let Some(slot) = part.get(name) {
            return Ok(slot.clone());
        }
        let checked: LimitName = limit.parse()?;
        let slot = Arc::new(Slot::new(checked, key));
        part.put(name.into(), slot.clone());
        Ok(slot)
    }

    /// Every slot there is.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        let slots = |part: &Mutex<LruCache<_, Arc<Slot>>>| {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.iter().map(|(_, slot)| slot.clone()).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(slots).collect()
    }

    fn part(&self, name: &str) -> MutexGuard<'_, LruCache<Box<str>, Arc<Slot>>> {
        // All of its bytes: keys may have beginnings or endings in common.
        let mixed = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        // A panic elsewhere leaves at worst what was known before.
        self.parts[mixed % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_buckets_are_remembered_than_said_and_no_fewer_whatever_their_keys_have_in_common() {
        for keys in [|i: usize| i.to_string(), |i| format!("{i}@example.com"), |i| format!("{i:08}/login")] {
            let slots = Slots::new();
            for i in 0..2 * MOST_BUCKETS {
                slots.get("user", Some(&keys(i))).unwrap();
            }
            let remembered: usize = slots.parts.iter().map(|part| part.lock().unwrap().len()).sum();
            assert_eq!(remembered, MOST_BUCKETS, "keys like {}", keys(1));
        }
    }

    #[test]
    fn what_can_be_no_bucket_is_not_remembered() {
        let slots = Slots::new();
        assert!(slots.get("no such name", None).is_err());
        assert!(slots.get("user", Some(&"k".repeat(257))).is_err());
        assert!(slots.parts.iter().all(|part| part.lock().unwrap().is_empty()));
    }
}
