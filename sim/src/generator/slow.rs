//! Plans of slow limits.

use super::disturbances::{daemons, network};
use crate::{
    dice::Dice,
    plan::{Plan, Promise, SECOND, Stream},
};

// === impl Plan ===

impl Plan {
    /// More callers than tokens. They wait for seconds, half of the seeds for a token each, the others for several at once.
    pub(super) fn slow(mut self, dice: &mut Dice) -> Self {
        let (each, most) = if self.seed.is_multiple_of(2) {
            let each = dice.pick(&[2, 5, 12, 28]) * SECOND;
            self.terms = Promise::new(dice.pick(&[1, 1, 2, 3, 20]), 1, each);
            (each, 1)
        } else {
            let each = dice.pick(&[20_000, 100_000, 400_000, SECOND]);
            self.terms = Promise::new(dice.pick(&[10, 30, 100, 1_000]), 1, each);
            (each, self.terms.capacity.min(dice.pick(&[5, 12, 28]) * SECOND / each))
        };
        (self.workers, self.buckets) = (self.workers.clamp(2, 16), 1);
        let turn = each * most;
        self.lasts = turn * dice.of(20..=60);
        if dice.chance(1, 4) {
            self.lease = Some((dice.pick(&[10, 100]), dice.pick(&[50_000, SECOND, 4 * SECOND])));
        }
        self.network = network(dice);
        self.daemons = daemons(dice, self.lasts);
        let waiters = Stream::Waiters { gap: turn * 2 / 3, most, patience: 3 * turn };
        self.traffic = vec![waiters, Stream::Takes { gap: each * most.div_ceil(4) / 2, most: 1 }];
        if dice.chance(1, 2) {
            self.traffic.push(Stream::Refunds { gap: turn * dice.of(1..=8), most: self.terms.capacity });
        }
        if dice.chance(1, 4) {
            self.traffic.push(Stream::Resets { gap: turn * 10 });
        }
        match dice.of(0..=4) {
            0 => self.schedule.push((dice.of(SECOND..=self.lasts), self.changed(dice))),
            1 | 2 => self.mishaps(dice),
            _ => {}
        }
        self
    }
}
