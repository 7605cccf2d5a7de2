//! Settles of parts, each held to the laws of the total and of the part.

use topup_twin::FairShares;
use topup_wire::{
    bucket::Operation,
    reply::{Settled, Verdict},
};

use super::{BEGIN, World};
use crate::ideal::SLACK;

// === impl World ===

impl World {
    /// Settles the part at `index`, and holds the reply to the first two laws.
    pub(super) fn settle(&mut self, index: usize, operation: Operation) -> Result<Settled, String> {
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
}
