//! Denied takes by key, since the last hand-over: a summary of bounded size.
//!
//! The summary is that of Misra and Gries. With room for `2 k` keys, it drops keys when it is full, and lowers all others
//! by as much as the last dropped one had. Each such step removes at least `k` times that number, so a key lacks at most
//! 1/k of all denied takes. The summary knows what a key may lack.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

use smol_str::SmolStr;
use topup_wire::{limit::TopKeys, scripts::DeniedKeys};

/// Keys that are left of a summary that has become too long, for each key that is told.
const KEPT: usize = 8;
/// Keys that a hand-over has, for each key that is told.
const HANDED_OVER: usize = 2;

/// Denied takes of the keys of one limit.
#[derive(Debug, Default)]
pub(crate) struct DeniedByKey(Mutex<Summary>);

#[derive(Debug, Default)]
struct Summary {
    takes: HashMap<SmolStr, u64>,
    /// The most takes that a key may have beyond those in `takes`.
    missing: u64,
    told: TopKeys,
}

// === impl DeniedByKey ===

impl DeniedByKey {
    /// Counts a denied take of `key`, of a limit that tells `told` keys.
    pub(crate) fn add(&self, key: &SmolStr, told: TopKeys) {
        let mut summary = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        summary.told = told;
        summary.add(key, 1);
    }

    /// The most denied keys, and how many of them the limit tells. They count as handed over from now on. `None` if no
    /// take was denied.
    pub(super) fn begin_hand_over(&self) -> Option<(TopKeys, DeniedKeys)> {
        let Summary { takes, mut missing, told } =
            mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if takes.is_empty() {
            return None;
        }
        let mut keys: Vec<_> = takes.into_iter().map(|(key, takes)| (key.to_string(), takes)).collect();
        let most = HANDED_OVER * told.get();
        if keys.len() > most {
            keys.select_nth_unstable_by(most, |(_, one), (_, other)| other.cmp(one));
            missing += keys[most].1;
            keys.truncate(most);
        }
        Some((told, DeniedKeys { keys, missing }))
    }

    /// Takes back that `denied` was handed over: Redis has added nothing.
    pub(super) fn undo_hand_over(&self, told: TopKeys, denied: &DeniedKeys) {
        let mut summary = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        summary.told = told;
        summary.missing += denied.missing;
        for (key, takes) in &denied.keys {
            summary.add(&SmolStr::new(key), *takes);
        }
    }
}

// === impl Summary ===

impl Summary {
    fn add(&mut self, key: &SmolStr, takes: u64) {
        match self.takes.get_mut(key) {
            Some(known) => *known += takes,
            None => {
                let most = KEPT * self.told.get();
                if self.takes.len() >= 2 * most {
                    self.shrink(most);
                }
                self.takes.insert(key.clone(), takes);
            }
        }
    }

    /// Leaves less than `most` keys.
    fn shrink(&mut self, most: usize) {
        let mut all: Vec<u64> = self.takes.values().copied().collect();
        let Some(at) = most.checked_sub(1).filter(|at| *at < all.len()) else { return };
        let (_, dropped, _) = all.select_nth_unstable_by(at, |one, other| other.cmp(one));
        let dropped = *dropped;
        self.missing += dropped;
        self.takes.retain(|_, takes| {
            *takes = takes.saturating_sub(dropped);
            *takes > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> SmolStr {
        SmolStr::new(format!("key-{number}"))
    }

    #[test]
    fn a_million_keys_stay_within_bounds_and_the_most_denied_ones_are_known() {
        let (denied, told) = (DeniedByKey::default(), TopKeys::new(20).unwrap());
        let (mut all, mut heavy) = (0, [0_u64; 3]);
        // Three keys among a million, which come in an order without any pattern.
        let mut random = 7_u64;
        for _ in 0..1_000_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) as usize;
            let number = if number.is_multiple_of(20) { number / 20 % 3 } else { 3 + number % 1_000_000 };
            denied.add(&key(number), told);
            all += 1;
            if let Some(heavy) = heavy.get_mut(number) {
                *heavy += 1;
            }
            debug_assert!(all % 1_000 > 0 || denied.0.lock().unwrap().takes.len() <= 2 * KEPT * 20);
        }
        let (_, told) = denied.begin_hand_over().unwrap();
        assert!(told.keys.len() <= HANDED_OVER * 20);
        assert!(told.missing <= all / (KEPT as u64 * 20) + 2, "{}", told.missing);
        for (number, takes) in heavy.into_iter().enumerate() {
            let name = key(number);
            let known = told.keys.iter().find(|(key, _)| *key == name.as_str()).unwrap().1;
            assert!(known <= takes && takes <= known + told.missing, "{known} of {takes}, {}", told.missing);
        }
        assert_eq!(denied.begin_hand_over(), None);
    }

    #[test]
    fn few_keys_are_exact_and_come_back_if_redis_refused_them() {
        let (denied, told) = (DeniedByKey::default(), TopKeys::new(1).unwrap());
        for _ in 0..5 {
            denied.add(&key(1), told);
        }
        denied.add(&key(2), told);
        let (_, first) = denied.begin_hand_over().unwrap();
        assert_eq!((first.keys.len(), first.missing), (2, 0));
        denied.add(&key(1), told);
        denied.undo_hand_over(told, &first);
        let (_, again) = denied.begin_hand_over().unwrap();
        assert!(again.keys.contains(&("key-1".to_owned(), 6)) && again.missing == 0, "{again:?}");
    }
}
