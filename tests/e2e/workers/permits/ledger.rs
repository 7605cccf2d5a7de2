//! A ledger of permits, kept apart from Redis: what holders told, step by step.

use std::collections::BTreeMap;

/// A permit of one holder. Instants are µs of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// When the holder asked for it.
    pub(super) asked: u64,
    /// When it had it for certain.
    pub(super) since: u64,
    /// Until when it has had it for certain: up to the release, or to the end of the lease it knew.
    pub(super) until: u64,
    /// Whether it was lost before it was released.
    pub(super) is_lost: bool,
}

/// The permits of all holders.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By process, task and number.
    held: BTreeMap<(usize, u64, u64), (Held, bool)>,
}

// === impl Ledger ===

impl Ledger {
    /// Enters a line of the process `process`.
    pub(super) fn enter(&mut self, process: usize, line: &str) {
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(|number| number.parse().unwrap()).collect();
        let id = (process, numbers[0], numbers[1]);
        match (word, &numbers[2..]) {
            ("acquired", &[asked, since, until]) => {
                self.held.insert(id, (Held { asked, since, until, is_lost: false }, false));
            }
            ("renewed", &[until]) => self.held.get_mut(&id).unwrap().0.until = until,
            ("releases", &[now, valid]) => {
                let (held, is_released) = self.held.get_mut(&id).unwrap();
                held.until = if valid == 1 { now } else { held.until.min(now) };
                (held.is_lost, *is_released) = (valid == 0, true);
            }
            _ => unreachable!("{line}"),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Held> {
        self.held.values().map(|(held, _)| *held)
    }

    /// The permits whose holders never released them.
    pub(super) fn killed(&self) -> usize {
        self.held.values().filter(|(_, is_released)| !is_released).count()
    }

    /// The most permits that were held at one instant.
    pub(super) fn most_at_once(&self) -> Vec<Held> {
        let at_once = self.all().map(|first| self.held_at(first.since));
        at_once.max_by_key(Vec::len).unwrap_or_default()
    }

    fn held_at(&self, instant: u64) -> Vec<Held> {
        self.all().filter(|held| (held.since..held.until).contains(&instant)).collect()
    }

    /// The number of pairs of permits in the wrong order, and the longest time by which one overtook another. In such a
    /// pair, the permit that came first was asked for more than `apart` later.
    pub(super) fn overtaken(&self, apart: u64) -> (usize, u64) {
        let mut by_asked: Vec<Held> = self.all().collect();
        by_asked.sort_unstable_by_key(|held| held.asked);
        let (mut pairs, mut longest) = (0, 0);
        for (i, first) in by_asked.iter().enumerate() {
            let later = by_asked[i + 1..].iter().take_while(|later| later.asked < first.since);
            for later in later.filter(|later| later.asked > first.asked + apart && later.since < first.since)
            {
                pairs += 1;
                longest = longest.max(first.since - later.since);
            }
        }
        (pairs, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_holder_counts_until_its_time_is_over_and_a_lost_one_until_then() {
        let mut ledger = Ledger::default();
        ledger.enter(0, "acquired 0 0 5 10 100");
        ledger.enter(1, "acquired 0 0 5 99 300");
        ledger.enter(0, "acquired 1 0 5 20 90");
        assert_eq!((ledger.most_at_once().len(), ledger.killed()), (2, 3));
        ledger.enter(0, "renewed 1 0 150");
        assert_eq!(ledger.most_at_once().len(), 3);
        ledger.enter(0, "releases 1 0 95 1");
        assert_eq!((ledger.most_at_once().len(), ledger.killed()), (2, 2));
        ledger.enter(1, "releases 0 0 400 0");
        assert_eq!((ledger.killed(), ledger.all().last().unwrap().until), (1, 300));
    }

    #[test]
    fn one_that_asked_later_and_came_first_overtook() {
        let mut ledger = Ledger::default();
        ledger.enter(0, "acquired 0 0 0 900 1000");
        ledger.enter(0, "acquired 1 0 100 700 1000");
        ledger.enter(0, "acquired 2 0 10 800 1000");
        assert_eq!(ledger.overtaken(50), (2, 200));
        assert_eq!(ledger.overtaken(95), (1, 200));
    }
}
