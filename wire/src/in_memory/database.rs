//! Keys, their values and their expiries.

use std::collections::{BTreeMap, VecDeque};

use super::{reply::Reply, sorted_set::SortedSet};

/// The fields of a hash. In order, so that a script that reads them all does the same each time.
pub(super) type Hash = BTreeMap<Vec<u8>, Vec<u8>>;
/// The elements of a list.
pub(super) type List = VecDeque<Vec<u8>>;

/// All keys.
#[derive(Debug, Default)]
pub(super) struct Database {
    /// Redis `TIME`, in µs.
    pub(super) now: u64,
    keys: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// The last ms at which the key is there.
    pub(super) expires: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(Vec<u8>),
    List(List),
    Hash(Hash),
    SortedSet(SortedSet),
}

/// A kind of value that keys may hold.
pub(super) trait Kind: Default {
    fn of(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    fn is_empty(&self) -> bool;
}

/// Declares how a kind of value lies in a [`Value`].
macro_rules! kinds {
    ($($kind:ty => $variant:ident;)*) => {
        $(impl Kind for $kind {
            fn of(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(value) = value { Some(value) } else { None }
            }

            fn into_value(self) -> Value {
                Value::$variant(self)
            }

            fn is_empty(&self) -> bool {
                self.is_empty()
            }
        })*
    };
}

kinds! {
    List => List;
    Hash => Hash;
    SortedSet => SortedSet;
}

// === impl Database ===

impl Database {
    pub(super) fn now_ms(&self) -> u64 {
        self.now / 1_000
    }

    /// The entry of `key`, unless its time is over.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms();
        if self.keys.get(key)?.is_over(now) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    pub(super) fn put(&mut self, key: &[u8], value: Value, expires: Option<u64>) {
        self.keys.insert(key.to_vec(), Entry { value, expires });
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let now = self.now_ms();
        self.keys.remove(key).filter(|entry| !entry.is_over(now))
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
    }

    /// All keys that are there.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        let now = self.now_ms();
        self.keys.iter().filter(move |(_, entry)| !entry.is_over(now)).map(|(key, _)| key)
    }

    /// The text of `key`.
    pub(super) fn text(&mut self, key: &[u8]) -> Result<Option<&mut Vec<u8>>, Reply> {
        match self.get(key).map(|entry| &mut entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Reply::wrong_type()),
        }
    }

    /// Reads the value of `key`, of this kind. A key that is not there holds an empty one.
    pub(super) fn read<K: Kind>(&mut self, key: &[u8], read: impl FnOnce(&K) -> Reply) -> Reply {
        match self.get(key).map(|entry| K::of(&mut entry.value)) {
            None => read(&K::default()),
            Some(Some(value)) => read(value),
            Some(None) => Reply::wrong_type(),
        }
    }

    /// Changes the value of `key`, of this kind. An empty one has no key.
    pub(super) fn change<K: Kind>(&mut self, key: &[u8], change: impl FnOnce(&mut K) -> Reply) -> Reply {
        let Some(entry) = self.get(key) else {
            let mut value = K::default();
            let reply = change(&mut value);
            if !value.is_empty() {
                self.put(key, value.into_value(), None);
            }
            return reply;
        };
        let Some(value) = K::of(&mut entry.value) else { return Reply::wrong_type() };
        let reply = change(value);
        if value.is_empty() {
            self.remove(key);
        }
        reply
    }
}

// === impl Entry ===

impl Entry {
    const fn is_over(&self, now: u64) -> bool {
        match self.expires {
            Some(expires) => now > expires,
            None => false,
        }
    }
}
