//! Fair shares in virtual time: the twin of `fair_shares.lua`, and tenants that want all, some or nothing.
//!
//! # Laws
//!
//! - *Total*: all tenants together have at most capacity + rate × w in each window w. Where terms change, an ideal bucket
//!   keeps its tokens.
//! - *Part*: a tenant has what a bucket of its own part would give it, whatever the others take.
//! - *Lend*: while anybody wants more, at least 98 % of the rate is taken.
//! - *Weights*: what others leave is divided by weight among those who want more.
//! - *Return*: once nobody leaves anything, and two deals later, each has the rate of its part and no more.

mod change;
mod lending;
mod limit;
mod segment;
mod settle;

use topup_twin::{FairShares, Record, ShareFault, ShareTerms};
use topup_wire::{bucket::Operation, limit::Limit};

use self::limit::limit;
use crate::{dice::Dice, ideal::Ideal};

/// The instant of Redis at the begin.
const BEGIN: u64 = 1_700_000_000_000_000;

/// One run.
struct World {
    now: u64,
    dice: Dice,
    limit: Limit,
    terms: ShareTerms,
    state: Option<FairShares>,
    fault: Option<ShareFault>,
    /// The total, and each part in the order of the terms.
    total: Ideal,
    own: Vec<Ideal>,
    /// Tokens of each part.
    admitted: Vec<u64>,
    takes: u64,
}

/// Runs `seed` with a mistake. Returns the number of takes.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_shares(seed: u64, fault: Option<ShareFault>) -> Result<u64, String> {
    let mut dice = Dice::new(seed);
    let tenants = dice.pick(&[1, 4, 4, 16, 16, 64]);
    let limit = limit(&mut dice, tenants)?;
    let record = Record::new(&limit, BEGIN);
    let terms = ShareTerms::new(&limit, record);
    let own = terms.parts().iter().map(|part| Ideal::full(part.capacity, part.pace, BEGIN)).collect();
    let total = Ideal::full(record.capacity, record.pace, BEGIN);
    let admitted = vec![0; terms.parts().len()];
    let mut world =
        World { now: BEGIN, dice, limit, terms, state: None, fault, total, own, admitted, takes: 0 };
    for _ in 0..4 {
        world.anything()?;
        world.storm()?;
        world.segment()?;
        if world.dice.chance(2, 3) {
            world.change()?;
        }
    }
    Ok(world.takes)
}

// === impl World ===

impl World {
    /// A full limit that has lent to some, and of which all want all, just before the end of a period.
    fn storm(&mut self) -> Result<(), String> {
        let (parts, period) = (self.own.len(), self.terms.period());
        let few = (1 + self.dice.index(parts)).min(parts - 1);
        self.now += 2 * self.total.time_full();
        let mut taken = 0;
        for index in 0..few {
            taken += self.settle(index, Operation::Share(2 * self.own[index].capacity))?.granted;
        }
        self.now += (taken as f64 / self.total.per_micro()) as u64;
        self.settle(few, Operation::Share(2 * self.own[few].capacity))?;
        self.now += self.dice.of(0..=period - 1);
        for index in 0..parts {
            self.settle(index, Operation::Share(2 * self.own[index].capacity))?;
        }
        Ok(())
    }

    /// Any operations of any tenants.
    fn anything(&mut self) -> Result<(), String> {
        let fill = self.total.time_to(self.total.capacity).max(2_000);
        for _ in 0..200 {
            let mean = self.dice.pick(&[fill / 100, self.terms.period() / 6, 20]);
            self.now += self.dice.gap(mean);
            if self.dice.chance(1, 30) {
                // Own tokens are there even if all want theirs at once.
                for index in 0..self.own.len() {
                    self.settle(index, Operation::Share(self.own[index].capacity))?;
                }
                continue;
            }
            let index = self.dice.index(self.own.len());
            let most = self.own[index].capacity + 1;
            let count = self.dice.of(1..=most);
            let count = self.dice.pick(&[1, most - 1, count]);
            let operation = match self.dice.of(0..=12) {
                0..=4 => Operation::Take(count),
                5..=7 => Operation::Share(count),
                8 => Operation::Charge { count, most_debt: 0 },
                9 => Operation::Peek(count),
                10 | 11 => Operation::Refund(count),
                _ if self.dice.chance(1, 4) => Operation::Reset,
                _ => Operation::Take(1),
            };
            self.settle(index, operation)?;
        }
        Ok(())
    }
}
