//! Changes of terms that workers have been told of, and when each may be made.

use std::collections::{BTreeMap, BTreeSet};

use topup_wire::{limit::LimitName, scripts::FREEZE};

use crate::{clock::Moment, publish::Announced};

/// From when a change applies that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The instant at which it is made.
    Now,
    /// The last boundary of the schedule.
    Boundary,
    /// The next boundary of the schedule: it is not to be made before.
    Ahead,
}

/// Frozen shards.
#[derive(Debug, Default)]
pub(super) struct Freezes(BTreeMap<(LimitName, u16), Freeze>);

#[derive(Clone, Copy, Debug)]
struct Freeze {
    /// The instant of Redis at which it was frozen, at the latest.
    frozen: u64,
    /// Workers were told no later.
    told: Moment,
    since: Since,
}

// === impl Freezes ===

impl Freezes {
    /// Those that all workers know of.
    pub(super) fn ripe(&self) -> Announced {
        let ripe = self.0.iter().filter(|(_, freeze)| freeze.is_ripe());
        ripe.map(|(place, freeze)| (*place, freeze.frozen)).collect()
    }

    /// The limits whose change is to be made now; those from a boundary, and those from when they are made.
    pub(super) fn due(&self) -> [BTreeSet<LimitName>; 2] {
        [Since::Boundary, Since::Now].map(|since| {
            let due = self.0.iter().filter(|(_, freeze)| freeze.is_ripe() && freeze.since == since);
            due.map(|((name, _), _)| *name).collect()
        })
    }

    /// Workers have just been told of the `announced` ones. Those of `before` were ripe and have not been enough.
    pub(super) fn told(&mut self, announced: Announced, before: &Announced, since: Since) {
        let told = Moment::now();
        for (place, frozen) in announced {
            let freeze = self.0.entry(place).or_insert(Freeze { frozen, told, since });
            freeze.since = since;
            // Somebody has published otherwise meanwhile, and has frozen it again.
            if before.contains_key(&place) {
                *freeze = Freeze { frozen, told, since };
            }
        }
    }

    /// Keeps those of limits that `which` picks.
    pub(super) fn retain(&mut self, which: impl Fn(&(LimitName, u16)) -> bool) {
        self.0.retain(|place, _| which(place));
    }
}

// === impl Freeze ===

impl Freeze {
    fn is_ripe(&self) -> bool {
        self.told.elapsed() >= FREEZE
    }
}
