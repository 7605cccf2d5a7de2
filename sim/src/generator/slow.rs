//! Plans of slow limits.

use super::disturbances::{daemons, network};
use crate::{
    dice::Dice,
    plan::{Plan, Promise, SECOND, Stream},
};

// === impl Plan ===

impl Plan {
    /// More callers than tokens, which come seconds apart. Waiters reserve them one by one.
    pub(super) fn slow(mut self, dice: &mut Dice) -> Self {
        let each = dice.pick(&[2, 5, 12, 28]) * SECOND;
        self.terms = Promise::new(dice.pick(&[1, 1, 2, 3, 20]), 1, each);
        (self.workers, self.buckets) = (self.workers.clamp(2, 16), 1);
        self.lasts = each * dice.of(20..=60);
        if dice.chance(1, 4) {
            self.lease = Some((dice.pick(&[10, 100]), dice.pick(&[50_000, SECOND, 4 * SECOND])));
        }
        self.network = network(dice);
        self.daemons = daemons(dice, self.lasts);
        let waiters = |gap, patience| Stream::Waiters { gap, most: 1, patience };
        self.traffic = vec![waiters(each * 2 / 3, 3 * each), Stream::Takes { gap: each / 2, most: 1 }];
        if dice.chance(1, 2) {
            self.traffic.push(Stream::Refunds { gap: each * dice.of(1..=8), most: self.terms.capacity });
        }
        if dice.chance(1, 4) {
            self.traffic.push(Stream::Resets { gap: each * 10 });
        }
        match dice.of(0..=4) {
            0 => self.schedule.push((dice.of(SECOND..=self.lasts), self.changed(dice))),
            1 | 2 => self.mishaps(dice),
            _ => {}
        }
        self
    }
}
