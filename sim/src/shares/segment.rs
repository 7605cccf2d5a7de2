//! Tenants that want the same for a while: all, some or nothing.

use std::{cmp::Reverse, collections::BinaryHeap};

use topup_wire::bucket::{Operation, Pace};

use super::World;

/// The takes of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// All that there is, again as soon as it is told to come.
    All,
    /// A token in so many µs: less than its part.
    Some(u64),
    Nothing,
}

// === impl World ===

impl World {
    /// Tenants that want the same all the time.
    pub(super) fn segment(&mut self) -> Result<(), String> {
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
}
