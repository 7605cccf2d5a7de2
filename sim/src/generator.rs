//! Generation of plans from seeds.

use topup_wire::limit::OnChange;

use crate::{
    dice::Dice,
    plan::{Ask, Daemons, Mishap, Network, Plan, Promise, SECOND, Stream},
};

/// About the number of callers of a run.
const CALLERS: u64 = 2_500;
/// The longest traffic, in µs.
const LONGEST: u64 = 20 * SECOND;
/// The shortest traffic, in µs. Estimates grow old in it.
const SHORTEST: u64 = 3 * SECOND;

/// Takes of a bucket at rest trust a clock to one part in 1,024: parts per million.
const MOST_DRIFT: u64 = 900;

/// Terms of every kind: slow, fast, uneven, and faster than the clock.
const TERMS: [Promise; 16] = [
    Promise::new(10, 10, SECOND),
    Promise::new(1_000, 1_000, SECOND),
    Promise::new(20, 100, SECOND),
    Promise::new(100, 500, SECOND),
    Promise::new(5, 1, SECOND),
    Promise::new(1_000, 100, SECOND),
    Promise::new(1_000, 997, SECOND),
    Promise::new(7, 3, SECOND),
    Promise::new(40, 7, SECOND),
    Promise::new(300, 20_000, SECOND),
    Promise::new(5_000, 5_000, SECOND),
    Promise::new(10_000, 250_000, SECOND),
    Promise::new(4_000, 1_001, 1_000),
    Promise::new(60, 7_919, 3_000_000),
    Promise::new(1, 2, SECOND),
    Promise::new(3, 50, SECOND),
];

/// Terms whose buckets rest as numbers: tokens come 2 ms apart or more.
const AS_NUMBERS: [Promise; 20] = [
    Promise::new(3, 30, SECOND),
    Promise::new(20, 300, SECOND),
    Promise::new(100, 7, SECOND),
    Promise::new(500, 47, 100_003),
    Promise::new(3, 100, SECOND),
    Promise::new(3, 2, SECOND),
    Promise::new(5, 1, SECOND),
    Promise::new(8, 1, 10_007),
    Promise::new(10, 10, SECOND),
    Promise::new(10, 50, SECOND),
    Promise::new(20, 100, SECOND),
    Promise::new(50, 20, SECOND),
    Promise::new(100, 5, SECOND),
    Promise::new(400, 1, 33_333),
    Promise::new(1_000, 100, SECOND),
    Promise::new(100_000, 100, SECOND),
    Promise::new(3, 500, SECOND),
    Promise::new(10, 200, SECOND),
    Promise::new(200, 200, SECOND),
    Promise::new(1_000, 500, SECOND),
];

// === impl Plan ===

impl Plan {
    /// The plan of `seed`.
    pub fn generate(seed: u64) -> Self {
        let mut plan = Self::generated(seed);
        if plan.promises().any(Promise::rests_as_number) {
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
        match dice.of(0..=9) {
            0 => return plan.steady(dice),
            1 | 2 => return plan.comebacks(dice),
            3 => return plan.late_bursts(dice),
            4 | 5 => return plan.resting(dice),
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

    /// Bursts that empty a bucket which fills quickly, with many commands late.
    fn late_bursts(mut self, dice: &mut Dice) -> Self {
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

    /// Single takes of several workers around the rate, of buckets that rest as numbers and are near empty at times.
    fn resting(mut self, dice: &mut Dice) -> Self {
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

    /// Adds a take of each worker every so many µs, twelve times, so that their estimates stay fresh.
    fn refresh_estimates(&mut self, dice: &mut Dice, from: u64, every: u64, within: u64) {
        for round in 0..12 {
            self.burst(dice, 1, from + round * every, within);
        }
    }

    /// Adds `takes` takes of each worker, within some µs from an instant on.
    fn burst(&mut self, dice: &mut Dice, takes: u64, at: u64, within: u64) {
        for worker in 0..self.workers {
            for _ in 0..takes {
                let at = at + dice.of(0..=within);
                self.traffic.push(Stream::Once { at, worker, ask: Ask::Take(1, 0) });
            }
        }
    }

    fn stream(&self, dice: &mut Dice, callers: u64) -> Stream {
        let (terms, lasts) = (self.terms, self.lasts);
        let least = lasts / callers;
        let full = terms.time_of(terms.capacity);
        match dice.of(0..=9) {
            0..=3 => {
                let most = dice.pick(&[1, 1, 1, 2, 5]).min(terms.capacity);
                let percent = dice.pick(&[10, 50, 90, 130, 500]);
                let gap = terms.time_of((1 + most) * 50) / percent / self.buckets as u64;
                Stream::Takes { gap: gap.max(least), most }
            }
            4..=6 => {
                let workers = self.workers as u64;
                let most = (callers / workers / 2).clamp(1, 64);
                let takes = dice.of(1..=most).min(2 * terms.capacity);
                let gap = dice.of(full / 2 + 1..=full * 3 / 2 + 2).max(lasts * takes * workers / callers);
                Stream::Bursts { gap, takes, spread: dice.pick(&[0, 3_000, 90_000, 300_000]) }
            }
            7 => {
                let size = dice.of(32..=150);
                Stream::Crowds {
                    gap: (lasts * size * 4 / callers).max(full),
                    size,
                    stays: dice.of(500..=20_000),
                }
            }
            _ => {
                let most = dice.pick(&[1, 2, 8]).min(terms.capacity);
                let gap = (terms.each() * most).max(least);
                Stream::Waiters { gap, most, patience: dice.pick(&[50_000, 400_000, 3 * SECOND]) }
            }
        }
    }

    fn mishaps(&mut self, dice: &mut Dice) {
        let kind = dice.of(0..=7);
        let many = dice.of(1..=2);
        for _ in 0..many {
            let at = dice.of(SECOND / 2..=self.lasts);
            let mishap = match kind {
                0 => Mishap::Step(dice.of(1..=5 * SECOND) as i64),
                1 => Mishap::Step(-(dice.of(1..=5 * SECOND) as i64)),
                2 => Mishap::Flush,
                3 => Mishap::Failover(dice.of(1_000..=300_000)),
                _ => Mishap::Change(self.changed(dice), dice.pick(&[0, 0, 200_000, SECOND])),
            };
            self.mishaps.push((at, mishap));
        }
        self.mishaps.sort_by_key(|(at, _)| *at);
        self.on_change =
            dice.pick(&[OnChange::Keep, OnChange::Proportional, OnChange::Proportional, OnChange::Reset]);
    }

    /// Other terms.
    fn changed(&self, dice: &mut Dice) -> Promise {
        let Promise { capacity, tokens, interval } = self.terms;
        let scaled = |number: u64, dice: &mut Dice| (number * dice.pick(&[1, 2, 4, 8, 20]) / 4).max(1);
        match dice.of(0..=2) {
            0 => Promise::new(scaled(capacity, dice), tokens, interval),
            1 => Promise::new(capacity, scaled(tokens, dice), interval),
            _ => Promise::new(scaled(capacity, dice), scaled(tokens, dice), interval),
        }
    }
}

fn network(dice: &mut Dice) -> Network {
    let mut network = Network::CALM;
    network.trip = dice.pick(&[(20, 60), (40, 300), (200, 2_000), (3_000, 40_000)]);
    network.pipeline = dice.pick(&[(0, 20), (0, 60), (0, 3_000)]);
    if dice.chance(1, 3) {
        network.late = dice.pick(&[5, 20, 200]);
        network.late_by = dice.pick(&[30_000, 300_000, 300_000, 1_600_000]);
    }
    if dice.chance(1, 5) {
        network.lost = dice.pick(&[10, 100, 1_000]);
    }
    if dice.chance(1, 5) {
        network.polls_lost = dice.pick(&[10, 50, 90]);
    }
    network
}

fn daemons(dice: &mut Dice, lasts: u64) -> Daemons {
    let mut daemons = Daemons::one();
    daemons.many = dice.pick(&[1, 1, 2]);
    daemons.pass = dice.pick(&[(50_000, 150_000), (50_000, 1_700_000), (1_000_000, 3_000_000)]);
    if dice.chance(1, 5) {
        let from = dice.of(0..=lasts);
        daemons.dead.push((from, from + dice.of(SECOND..=6 * SECOND)));
    }
    if dice.chance(1, 30) {
        daemons.many = 0;
    }
    daemons
}
