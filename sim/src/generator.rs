//! Generation of plans from seeds.

mod bursts;
mod disturbances;
mod resting;
mod slow;
mod streams;
mod terms;

use self::{
    disturbances::{daemons, network},
    terms::{AS_NUMBERS, TERMS},
};
use crate::{
    dice::Dice,
    plan::{Plan, Promise, SECOND, Stream},
};

/// About the number of callers of a run.
const CALLERS: u64 = 2_500;
/// The longest traffic, in µs.
const LONGEST: u64 = 20 * SECOND;
/// The shortest traffic, in µs. Estimates grow old in it.
const SHORTEST: u64 = 3 * SECOND;

/// Takes of a bucket at rest and reserved tokens trust a clock to one part in 1,024: parts per million.
const MOST_DRIFT: u64 = 900;

// === impl Plan ===

impl Plan {
    /// The plan of `seed`.
    pub fn generate(seed: u64) -> Self {
        let mut plan = Self::generated(seed);
        if plan.promises().any(Promise::rests_as_number) || plan.patience() > 0 {
            plan.drift = plan.drift.min(MOST_DRIFT);
        }
        plan
    }

    fn generated(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let terms = if dice.chance(2, 5) { dice.pick(&AS_NUMBERS) } else { dice.pick(&TERMS) };
        let workers = dice.pick(&[1, 1, 2, 3, 4, 6, 8, 16, 32, 64, 128]);
        let mut plan = Self::calm(seed, workers, terms);
        plan.buckets = dice.pick(&[1, 1, 1, 2, 5]);
        plan.drift = dice.pick(&[0, 0, 500, 10_000]);
        plan.lasts = terms.time_of(dice.of(300..=3_000)).clamp(SHORTEST, LONGEST);
        // By the seed and not by the dice: the plans of all other seeds stay as they were.
        if seed % 9 == 8 {
            return plan.of_several(dice);
        }
        if seed % 25 == 24 {
            return plan.slow(dice);
        }
        match dice.of(0..=10) {
            0 => return plan.steady(dice),
            1 | 2 => return plan.comebacks(dice),
            3 => return plan.late_bursts(dice),
            4 | 5 => return plan.resting(dice),
            6 => return plan.outlasting(dice),
            _ => {}
        }
        if dice.chance(1, 3) {
            let ttl = dice.pick(&[50_000, 300_000, SECOND, 4 * SECOND]);
            plan.lease = Some((dice.pick(&[100, 300, 1_000]), ttl));
        }
        plan.network = network(dice);
        plan.restless = dice.chance(1, 4);
        plan.daemons = daemons(dice, plan.lasts);
        let streams = dice.of(1..=3);
        for _ in 0..streams {
            let stream = plan.stream(dice, CALLERS / streams);
            plan.traffic.push(stream);
        }
        if dice.chance(1, 2) {
            let gap = (terms.time_of(terms.capacity) / 2).clamp(20_000, plan.lasts);
            plan.traffic.push(Stream::Refunds { gap, most: terms.capacity });
            if dice.chance(1, 3) {
                plan.traffic.push(Stream::Resets { gap: gap * 4 });
            }
        }
        if dice.chance(1, 3) {
            plan.mishaps(dice);
        }
        plan
    }

    /// The same, asked above its rate all the time.
    fn steady(mut self, dice: &mut Dice) -> Self {
        self.steady = true;
        self.buckets = 1;
        self.workers = self.workers.min(16);
        self.drift = 0;
        // Takes come at two to five times the rate, as far as a run has room for them.
        let gap = (self.terms.each() / dice.of(2..=5)).max(200);
        if self.terms.each() < 2 * gap {
            self.terms = Promise::new(20, 1_000, SECOND);
        }
        self.terms.capacity = self.terms.capacity.clamp(5, 100);
        self.lasts = (gap * CALLERS).clamp(SHORTEST / 2, LONGEST);
        self.traffic = vec![Stream::Takes { gap, most: 1 }];
        self
    }

    /// Tokens given back while others believe the bucket far from full.
    fn comebacks(mut self, dice: &mut Dice) -> Self {
        let terms = dice.pick(&[(1_000, 100), (100, 20), (200, 100), (40, 20), (100, 200), (20, 100)]);
        self.terms = Promise::new(terms.0, terms.1, SECOND);
        (self.workers, self.buckets) = (self.workers.clamp(2, 16), 1);
        if dice.chance(1, 2) {
            self.lease = Some((dice.pick(&[100, 1_000]), dice.pick(&[50_000, SECOND, 4 * SECOND])));
            let stays = dice.pick(&[100_000, SECOND]);
            self.traffic.push(Stream::Crowds { gap: SECOND, size: dice.of(2..=6), stays });
        }
        self.lasts = LONGEST;
        self.network = network(dice);
        if dice.chance(1, 2) {
            self.network.trip = (20, 300);
            (self.network.late, self.network.late_by) = dice.pick(&[(0, 0), (300, 300_000)]);
        }
        self.daemons.pass = dice.pick(&[(50_000, 150_000), (50_000, 1_700_000), (1_000_000, 3_000_000)]);
        let gap = dice.of(SECOND / 2..=3 * SECOND);
        self.traffic.push(Stream::Comebacks { gap, most: self.terms.capacity });
        if dice.chance(1, 3) {
            self.mishaps(dice);
        }
        self
    }
}
