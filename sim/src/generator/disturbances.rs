//! Disturbances of a run: slow and lossy networks, dead daemons, and mishaps.

use topup_wire::limit::OnChange;

use crate::{
    dice::Dice,
    plan::{Daemons, Mishap, Network, Plan, Promise, SECOND},
};

pub(super) fn network(dice: &mut Dice) -> Network {
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

pub(super) fn daemons(dice: &mut Dice, lasts: u64) -> Daemons {
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

// === impl Plan ===

impl Plan {
    pub(super) fn mishaps(&mut self, dice: &mut Dice) {
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
    pub(super) fn changed(&self, dice: &mut Dice) -> Promise {
        let Promise { capacity, tokens, interval } = self.terms;
        let scaled = |number: u64, dice: &mut Dice| (number * dice.pick(&[1, 2, 4, 8, 20]) / 4).max(1);
        match dice.of(0..=2) {
            0 => Promise::new(scaled(capacity, dice), tokens, interval),
            1 => Promise::new(capacity, scaled(tokens, dice), interval),
            _ => Promise::new(scaled(capacity, dice), scaled(tokens, dice), interval),
        }
    }
}
