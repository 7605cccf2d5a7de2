//! Pauses of buckets, as called services have asked for.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::machine::Micros;

/// A limit and a key.
type Name = (String, Option<String>);

/// The ends of all pauses, for all clones of a client.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<HashMap<Name, Micros>>);

// === impl Pauses ===

impl Pauses {
    /// The end of the bucket's pause, if it is paused at `now`.
    pub(crate) fn until(&self, name: &Name, now: Micros) -> Option<Micros> {
        let paused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        paused.get(name).copied().filter(|until| *until > now)
    }

    /// Pauses the bucket; the longer of two pauses holds. Removes all pauses that are over.
    pub(crate) fn pause(&self, name: Name, until: Micros, now: Micros) {
        let mut paused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        paused.retain(|_, until| *until > now);
        let known = paused.entry(name).or_insert(until);
        *known = until.max(*known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str) -> Name {
        ("crawl".to_owned(), Some(key.to_owned()))
    }

    #[test]
    fn the_longer_pause_holds_and_none_is_kept_when_it_is_over() {
        let pauses = Pauses::default();
        pauses.pause(name("a"), 100, 0);
        pauses.pause(name("a"), 50, 0);
        assert_eq!(pauses.until(&name("a"), 99), Some(100));
        assert_eq!(pauses.until(&name("a"), 100), None);
        assert_eq!(pauses.until(&name("b"), 0), None);
        pauses.pause(name("b"), 300, 200);
        assert_eq!(pauses.0.lock().unwrap().len(), 1);
    }
}
