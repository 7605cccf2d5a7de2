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

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use topup_twin::{FairShares, Record, ShareFault, ShareTerms};
use topup_wire::{
    bucket::{Operation, Pace},
    limit::{Algorithm, Capacity, Limit, OnChange, Parts, Rate, Supply, Terms},
    reply::{Settled, Verdict},
};

use crate::{
    dice::Dice,
    ideal::{Ideal, SLACK},
};

/// The instant of Redis at the begin.
const BEGIN: u64 = 1_700_000_000_000_000;

/// The takes of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// All that there is, again as soon as it is told to come.
    All,
    /// A token in so many µs: less than its part.
    Some(u64),
    Nothing,
}

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

/// A limit of so many parts.
fn limit(dice: &mut Dice, tenants: u64) -> Result<Limit, String> {
    let names = (1..tenants).map(|i| format!("t{i}")).chain(["*".to_owned()]);
    let parts: Vec<(String, u64)> = names.map(|name| (name, dice.of(1..=5))).collect();
    let weights: u64 = parts.iter().map(|(_, weight)| weight).sum();
    let capacity = weights * dice.of(1..=30) + dice.of(0..=2);
    // Full within 50 ms to 5 s.
    let rate = Rate::new((capacity * dice.of(200..=20_000)).div_ceil(1_000), Duration::from_secs(1));
    let terms =
        Terms { capacity: Capacity::new(capacity).map_err(text)?, supply: Supply::Rate(rate.map_err(text)?) };
    let name = "api".parse().map_err(text)?;
    Ok(Limit {
        parts: Parts::new(parts).map_err(text)?,
        tick: Duration::from_millis(dice.pick(&[20, 100, 100, 1_000])),
        on_change: dice.pick(&[OnChange::Keep, OnChange::Keep, OnChange::Proportional, OnChange::Reset]),
        ..Limit::plain(name, Algorithm::FairShares, terms)
    })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

// === impl World ===

impl World {
    /// Settles the part at `index`, and holds the reply to the first two laws.
    fn settle(&mut self, index: usize, operation: Operation) -> Result<Settled, String> {
        let now = self.now;
        let name = self.terms.parts()[index].name.clone();
        // A key without a part of its own.
        let key = if name == "*" { "somebody" } else { &name };
        if self.state.as_ref().is_some_and(|state| state.expires.div_ceil(1_000) * 1_000 < now) {
            self.state = None;
        }
        let settled = FairShares::settle(&self.terms, &mut self.state, key, operation, now, self.fault);
        self.takes += 1;
        self.admitted[index] += settled.granted;
        let parts = self.own.len();
        let (total, own) = (&mut self.total, &mut self.own[index]);
        total.credit(now);
        own.credit(now);
        let sure = own.sure();
        let at_hand = format!("{index} of {parts} at {}: {operation:?} -> {settled:?}", now - BEGIN);
        match operation {
            Operation::Refund(count) => {
                total.put_back(count);
                own.put_back(count);
                return Ok(settled);
            }
            Operation::Reset => {
                total.put_back(own.capacity);
                own.put_back(own.capacity);
                return Ok(settled);
            }
            _ => {}
        }
        total.take(settled.granted);
        own.take(settled.granted);
        if total.level < 0 {
            return Err(format!("total: {} of {} too many, {at_hand}", -total.level, total.pace.p));
        }
        own.level = own.level.max(0);
        let count = operation.count();
        let due = match operation {
            Operation::Take(_) | Operation::Peek(_) if count > own.capacity || count > sure => 0,
            Operation::Peek(_) => u64::from(settled.verdict == Verdict::Denied),
            _ => count.min(sure),
        };
        // The total may be noted late, too.
        if settled.granted < due && settled.wait > SLACK {
            return Err(format!("part: {sure} are its own, {at_hand}"));
        }
        if settled.verdict == Verdict::Denied && settled.wait > own.time_to(count) + 2 * SLACK {
            return Err(format!("part: its own come in {}, {at_hand}", own.time_to(count)));
        }
        Ok(settled)
    }

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

    /// Tenants that want the same all the time.
    fn segment(&mut self) -> Result<(), String> {
        let all = self.dice.of(0..=3);
        let parts = self.own.len();
        let mut wants: Vec<Wants> = Vec::new();
        for index in 0..parts {
            let Pace { n, p } = self.own[index].pace;
            let own_token = p.div_ceil(n);
            wants.push(match self.dice.of(0..=2) {
                _ if all == 3 => Wants::All,
                0 => Wants::Some(self.dice.of(2 * own_token..=8 * own_token)),
                1 => Wants::All,
                _ => Wants::Nothing,
            });
        }
        let (begin, period) = (self.now, self.terms.period());
        let fill = self.total.time_full();
        // By then, all who want less than their part are full.
        let steady = begin + 2 * fill + 4 * period;
        let returned = begin + 3 * period;
        let end = steady + fill.max(60 * period);
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        for (index, _) in wants.iter().enumerate().filter(|(_, wants)| **wants != Wants::Nothing) {
            queue.push(Reverse((begin + self.dice.of(0..=period / 8), index)));
        }
        let (mut at_return, mut at_steady) = (None, None);
        while let Some(Reverse((at, index))) = queue.pop().filter(|Reverse((at, _))| *at < end) {
            self.now = self.now.max(at);
            if at >= returned {
                at_return.get_or_insert_with(|| self.admitted.clone());
            }
            if at >= steady {
                at_steady.get_or_insert_with(|| self.admitted.clone());
            }
            let next = match wants[index] {
                Wants::All => self.takes_all(index)? + self.dice.of(0..=period / 8),
                Wants::Some(every) => {
                    self.settle(index, Operation::Take(1))?;
                    self.now + every
                }
                Wants::Nothing => continue,
            };
            queue.push(Reverse((next, index)));
        }
        self.now = end;
        let (Some(at_return), Some(at_steady)) = (at_return, at_steady) else { return Ok(()) };
        if wants.iter().all(|wants| *wants == Wants::All) {
            for (index, own) in self.own.iter().enumerate() {
                let had = (at_steady[index] - at_return[index]) as f64;
                let most = own.per_micro() * (steady - returned + 2 * period) as f64 + 3.0;
                if had > most {
                    return Err(format!("return: {index} of {parts} had {had} of {most}"));
                }
            }
        }
        self.judge(&wants, &at_steady, end - steady)
    }

    /// Takes all that the part may have. Returns the instant at which it is told to come again.
    fn takes_all(&mut self, index: usize) -> Result<u64, String> {
        for _ in 0..50 {
            let count = self.own[index].capacity;
            let whole = self.dice.chance(1, 4);
            let operation = if whole { Operation::Take(1) } else { Operation::Share(count) };
            let settled = self.settle(index, operation)?;
            if settled.granted < operation.count() {
                return Ok(self.now + settled.wait.max(1));
            }
        }
        Ok(self.now + 1)
    }

    /// Holds the tokens that each part has had since `before`, in `time` µs, to the laws of lending.
    fn judge(&self, wants: &[Wants], before: &[u64], time: u64) -> Result<(), String> {
        let (time, rate, period) = (time as f64, self.total.per_micro(), self.terms.period() as f64);
        let smallest = self.own.iter().map(|own| own.capacity).min().unwrap_or(1) as f64;
        // A part that is full within a fraction of a millisecond cannot borrow all.
        if !wants.contains(&Wants::All) || period > smallest / rate / 2.0 + 1.0 {
            return Ok(());
        }
        let had = |index: usize| (self.admitted[index] - before[index]) as f64;
        let parts = wants.len();
        let all: f64 = (0..parts).map(had).sum();
        let least = 0.98 * rate * time - 2.0 * rate * period - parts as f64 - 2.0;
        if all < least {
            return Err(format!("lend: {parts} parts had {all} of {least}, {wants:?}"));
        }
        let by_weight: f64 =
            (0..parts).filter(|i| wants[*i] == Wants::All).map(|i| self.own[i].per_micro()).sum();
        let left: f64 = (0..parts)
            .map(|i| match wants[i] {
                Wants::All => 0.0,
                Wants::Some(every) => self.own[i].per_micro() - 1.0 / every as f64,
                Wants::Nothing => self.own[i].per_micro(),
            })
            .sum();
        for index in (0..parts).filter(|i| wants[*i] == Wants::All) {
            let own = self.own[index].per_micro();
            let fair = own + left * own / by_weight;
            let slack = 0.05 * fair * time + 2.0 * fair * period + 4.0;
            if (had(index) - fair * time).abs() > slack {
                let expected = fair * time;
                return Err(format!("weights: {index} of {parts} had {} of {expected}", had(index)));
            }
        }
        Ok(())
    }

    /// Another capacity or rate, and other weights and parts.
    fn change(&mut self) -> Result<(), String> {
        let tenants =
            if self.dice.chance(1, 3) { self.dice.pick(&[1, 4, 16]) } else { self.own.len() as u64 };
        let before: Vec<String> = self.terms.parts().iter().map(|part| part.name.clone()).collect();
        let changed = limit(&mut self.dice, tenants)?;
        let mut record = self.terms.record.changed(&changed, self.now);
        // Weights alone change something, too.
        record.since = self.now;
        self.limit = changed;
        self.terms = ShareTerms::new(&self.limit, record);
        let on_change = self.limit.on_change;
        self.total.credit(self.now);
        let capacities = (record.capacity, self.total.capacity);
        self.total.change(record.capacity, record.pace, on_change, capacities, 0);
        let own = |part: &topup_wire::limit::Part| {
            let mut own = Ideal::full(part.capacity, part.pace, self.now);
            match before.iter().position(|name| *name == part.name) {
                Some(index) => {
                    own = self.own[index];
                    own.credit(self.now);
                    own.change(part.capacity, part.pace, on_change, capacities, 2);
                }
                None if on_change != OnChange::Reset => own.level = 0,
                None => {}
            }
            own
        };
        let own: Vec<Ideal> = self.terms.parts().iter().map(own).collect();
        self.admitted = vec![0; own.len()];
        self.own = own;
        // The daemon touches the state, so that it expires by these terms.
        FairShares::settle(&self.terms, &mut self.state, "*", Operation::Refund(0), self.now, self.fault);
        Ok(())
    }
}
