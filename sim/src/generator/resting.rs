//! Plans of buckets that rest as numbers.

use super::{
    LONGEST, SHORTEST,
    disturbances::{daemons, network},
    terms::AS_NUMBERS,
};
use crate::{
    dice::Dice,
    plan::{Mishap, Network, Plan, Promise, SECOND, Stream},
};

// === impl Plan ===

impl Plan {
    /// Single takes of several workers around the rate, of buckets that rest as numbers and are near empty at times.
    pub(super) fn resting(mut self, dice: &mut Dice) -> Self {
        self.terms = dice.pick(&AS_NUMBERS);
        self.workers = self.workers.clamp(2, 32);
        self.buckets = dice.pick(&[1, 1, 3]);
        let terms = self.terms;
        self.lasts = terms.time_of(dice.of(300..=2_000)).clamp(SHORTEST, LONGEST);
        self.network = network(dice);
        if dice.chance(1, 2) {
            self.network.trip = dice.pick(&[(20, 60), (40, 300)]);
        }
        match dice.of(0..=5) {
            0 => return self.late_first_takes(dice),
            1 => return self.changed_at_rest(dice),
            _ => {}
        }
        self.restless = dice.chance(1, 4);
        self.daemons = daemons(dice, self.lasts);
        let each = |percent: u64| (terms.each() * 100 / percent * self.buckets as u64).max(1_500);
        let gap = each(dice.pick(&[20, 60, 95, 105, 150, 300]));
        self.traffic.push(Stream::Takes { gap, most: dice.pick(&[1, 1, 2, 3]) });
        if dice.chance(1, 2) {
            // Empties a bucket now and then.
            let takes = (terms.capacity / self.workers as u64).clamp(1, 20);
            let gap = terms.time_of(terms.capacity).clamp(300_000, self.lasts);
            self.traffic.push(Stream::Bursts { gap, takes, spread: dice.pick(&[0, 3_000, 90_000]) });
        }
        if dice.chance(1, 3) {
            let gap = (terms.each() * dice.of(5..=50)).min(self.lasts);
            self.traffic.push(Stream::Refunds { gap, most: dice.of(1..=terms.capacity.min(20)) });
            if dice.chance(1, 2) {
                self.traffic.push(Stream::Resets { gap: gap * 4 });
            }
        }
        if dice.chance(1, 3) {
            self.mishaps(dice);
        }
        self
    }

    /// Full buckets that one or two workers empty at once, with many commands late by less than the time of a token.
    fn late_first_takes(mut self, dice: &mut Dice) -> Self {
        self.terms = dice.pick(&AS_NUMBERS[..6]);
        (self.workers, self.lasts) = (dice.pick(&[1, 1, 2]), LONGEST);
        (self.network.trip, self.network.pipeline) = ((20, 60), (0, 20));
        (self.network.late, self.network.late_by) = (1_000, self.terms.each());
        let gap = (self.terms.time_of(self.terms.capacity) * 3 / 2).max(30_000);
        let spread = self.terms.each() / 4;
        self.traffic.push(Stream::Bursts { gap, takes: self.terms.capacity + 2, spread });
        self
    }

    /// A bucket at rest whose rate is raised while it is below full, and which is emptied soon after that.
    fn changed_at_rest(mut self, dice: &mut Dice) -> Self {
        let (capacity, before, after) = dice.pick(&[(50, 10, 50), (50, 10, 40), (100, 20, 100), (20, 4, 10)]);
        self.terms = Promise::new(capacity, before, SECOND);
        (self.workers, self.buckets, self.lasts) = (dice.pick(&[1, 2, 4]), 1, 7 * SECOND);
        self.network = Network::CALM;
        let at = 2 * SECOND;
        self.mishaps.push((at, Mishap::Change(Promise::new(capacity, after, SECOND), 0)));
        // The change is made and known to all workers 1.4 s later, and then the bucket is the first time asked.
        self.burst(dice, capacity * 2 / 5 / self.workers as u64, at + SECOND * 3 / 5, SECOND / 8);
        self.refresh_estimates(dice, at + SECOND * 7 / 5, 80_000, 60_000);
        let later = at + dice.of(2 * SECOND..=7 * SECOND / 2);
        self.burst(dice, capacity * 3 / 2 / self.workers as u64, later, 40_000);
        self
    }
}
