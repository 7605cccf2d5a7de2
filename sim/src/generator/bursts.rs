//! Plans of bursts: every worker takes at about one instant.

use super::disturbances::network;
use crate::{
    dice::Dice,
    plan::{Ask, Mishap, Plan, Promise, SECOND, Stream},
};

// === impl Plan ===

impl Plan {
    /// Bursts that empty a bucket which fills quickly, with many commands late.
    pub(super) fn late_bursts(mut self, dice: &mut Dice) -> Self {
        let terms = dice.pick(&[(20, 100), (40, 200), (100, 500), (1_000, 5_000)]);
        self.terms = Promise::new(terms.0, terms.1, SECOND);
        (self.workers, self.buckets) = (self.workers.clamp(2, 16), 1);
        self.lasts = 6 * SECOND;
        self.daemons.pass = (1_000_000, 3_000_000);
        (self.network.late, self.network.late_by) =
            dice.pick(&[(300, 300_000), (1_000, 300_000), (300, 900_000)]);
        let takes = (self.terms.capacity * dice.of(4..=15) / 10 / self.workers as u64).clamp(1, 64);
        let gap = dice.of(50_000..=300_000);
        self.traffic.push(Stream::Bursts {
            gap,
            takes,
            spread: dice.pick(&[1_000, 20_000, 90_000, 300_000]),
        });
        if dice.chance(1, 2) {
            let gap = self.terms.each() * 2;
            self.traffic.push(Stream::Takes { gap, most: 1 });
        }
        if dice.chance(1, 3) { self.raised(dice) } else { self }
    }

    /// Bursts at a slow bucket, whose rate is raised while workers hear little.
    fn raised(mut self, dice: &mut Dice) -> Self {
        let (capacity, tokens) = dice.pick(&[(100, 20), (1_000, 200), (200, 100)]);
        self.terms = Promise::new(capacity, tokens, SECOND);
        self.workers = self.workers.min(4);
        (self.network.late, self.network.polls_lost) = (0, dice.pick(&[0, 90, 90]));
        let at = 2 * SECOND + dice.of(0..=SECOND);
        let raised = Promise::new(capacity, tokens * dice.of(10..=60), SECOND);
        self.mishaps.push((at, Mishap::Change(raised, 0)));
        // Half of it is taken, a few keep knowledge fresh, and all comes at once soon after the change.
        let each = (capacity / self.workers as u64).min(150);
        self.traffic.clear();
        self.burst(dice, each / 2, at - 100_000, 20_000);
        self.refresh_estimates(dice, at, 140_000, 3_000);
        let later = dice.of(800_000..=1_700_000);
        self.burst(dice, each * 3 / 2, at + later, 3_000);
        self
    }

    /// Workers with leased tokens hear of each other's takes, rest until their tokens are about to end, and spend them.
    pub(super) fn outlasting(mut self, dice: &mut Dice) -> Self {
        let (capacity, tokens) = dice.pick(&[(200, 40), (500, 50), (1_000, 200)]);
        self.terms = Promise::new(capacity, tokens, SECOND);
        (self.workers, self.buckets) = (self.workers.clamp(2, 8), 1);
        self.lease = Some((dice.pick(&[30, 100]), dice.pick(&[4 * SECOND, 20 * SECOND])));
        self.lasts = 20 * SECOND;
        let takes = dice.of(10..=40).min(capacity / self.workers as u64);
        for worker in 0..self.workers {
            let at = SECOND + dice.of(0..=SECOND);
            self.burst_of(dice, worker, takes, at, 300_000);
            if dice.chance(4, 5) {
                let (at, ask) = (3 * SECOND + dice.of(0..=SECOND), Ask::Take(dice.of(2..=3), 0));
                self.traffic.push(Stream::Once { at, worker, ask });
            }
        }
        let rest = self.terms.time_of(dice.of(1..=capacity));
        // In all half as much again as the bucket holds.
        self.burst(dice, capacity * 3 / 2 / self.workers as u64, 4 * SECOND + rest, 300_000);
        self
    }

    /// Takes of several tokens by all workers, from a full bucket to an empty one, and again after a rest.
    pub(super) fn of_several(mut self, dice: &mut Dice) -> Self {
        let (capacity, tokens) = dice.pick(&[(100, 100), (1_000, 100), (1_000, 5_000), (10_000, 1_000)]);
        self.terms = Promise::new(capacity, tokens, SECOND);
        (self.workers, self.buckets) = (self.workers.clamp(1, 16), 1);
        self.lasts = 8 * SECOND;
        if dice.chance(1, 2) {
            self.lease = Some((dice.pick(&[100, 1_000]), dice.pick(&[50_000, SECOND, 4 * SECOND])));
        }
        self.network = network(dice);
        let most = (capacity / dice.pick(&[5, 20, 100])).max(2);
        let gap = self.terms.time_of((1 + most) * 50) / dice.pick(&[50, 90, 130, 500]);
        self.traffic.push(Stream::Takes { gap: gap.max(self.lasts / 1_000), most });
        // Each round takes half as much again as the bucket holds.
        let takes = (capacity * 3 / (1 + most) / self.workers as u64).clamp(1, 40);
        for round in 0..dice.of(1..=4) {
            let at = SECOND + round * self.terms.time_of(capacity).min(3 * SECOND) + dice.of(0..=SECOND);
            let within = dice.pick(&[0, 3_000, 90_000]);
            for worker in 0..self.workers {
                for _ in 0..takes {
                    let patience = dice.pick(&[0, 0, 0, 400_000]);
                    let (at, ask) = (at + dice.of(0..=within), Ask::Take(dice.of(1..=most), patience));
                    self.traffic.push(Stream::Once { at, worker, ask });
                }
            }
        }
        if dice.chance(1, 3) {
            self.traffic.push(Stream::Refunds { gap: SECOND, most });
        }
        if dice.chance(1, 4) {
            self.mishaps(dice);
        }
        self
    }

    /// Adds a take of each worker every so many µs, twelve times, so that their estimates stay fresh.
    pub(super) fn refresh_estimates(&mut self, dice: &mut Dice, from: u64, every: u64, within: u64) {
        for round in 0..12 {
            self.burst(dice, 1, from + round * every, within);
        }
    }

    /// Adds `takes` takes of each worker, within some µs from an instant on.
    pub(super) fn burst(&mut self, dice: &mut Dice, takes: u64, at: u64, within: u64) {
        for worker in 0..self.workers {
            self.burst_of(dice, worker, takes, at, within);
        }
    }

    fn burst_of(&mut self, dice: &mut Dice, worker: usize, takes: u64, at: u64, within: u64) {
        for _ in 0..takes {
            let at = at + dice.of(0..=within);
            self.traffic.push(Stream::Once { at, worker, ask: Ask::Take(1, 0) });
        }
    }
}
