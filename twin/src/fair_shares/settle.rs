//! Operations on a part.

use topup_wire::{
    bucket::Operation,
    reply::{Settled, Verdict},
};

use super::{fault::ShareFault, state::FairShares, terms::ShareTerms};
use crate::apply::{apply, unknown, without_debt};

// === impl FairShares ===

impl FairShares {
    /// Settles the part of `key`: the reply to `operation` at `now`. A state of `None` has no key.
    pub fn settle(
        terms: &ShareTerms,
        state: &mut Option<Self>,
        key: &str,
        operation: Operation,
        now: u64,
        fault: Option<ShareFault>,
    ) -> Settled {
        if terms.under.is_empty() {
            return unknown(now);
        }
        let operation = without_debt(operation);
        let index = terms.index_of(key);
        let known = state.as_ref().filter(|held| held.since == terms.record.since);
        let (mut work, anew) = match known {
            Some(held) => {
                let mut held = held.clone();
                held.credit_total(terms, now, fault);
                held.credit_part(terms, index, now);
                (held, false)
            }
            None => (Self::begun(terms, state.as_ref(), now, fault), true),
        };
        let (settled, changed) = work.decide(terms, index, operation, now, fault);
        let writes =
            settled.verdict == Verdict::Allowed || (anew || changed) && settled.verdict == Verdict::Denied;
        if writes && !matches!(operation, Operation::Peek(_)) {
            work.prolong(now);
            *state = Some(work);
        }
        settled
    }

    /// Carries `operation` out. Returns the reply, and whether a denial is to be written.
    fn decide(
        &mut self,
        terms: &ShareTerms,
        index: usize,
        operation: Operation,
        now: u64,
        fault: Option<ShareFault>,
    ) -> (Settled, bool) {
        let capacity = self.parts[index].capacity;
        let (count, takes) =
            (operation.count(), !matches!(operation, Operation::Refund(_) | Operation::Reset));
        let is_whole = matches!(operation, Operation::Take(_) | Operation::Peek(_));
        let mut changed = false;
        let short = takes && count > self.at_hand(index, now, fault) && !(is_whole && count > capacity);
        if short && self.is_due(now) {
            for other in 0..self.parts.len() {
                self.credit_part(terms, other, now);
            }
            self.parts[index].used = -1;
            self.deal(index, now, fault);
            changed = true;
        }
        if !takes {
            return (self.put_back(index, operation, now, fault), changed);
        }
        let loan = self.lent(index, now, fault);
        let tokens = self.at_hand(index, now, fault);
        let mut settled = apply(capacity, tokens as i64, operation, now);
        let part = &mut self.parts[index];
        let own = settled.granted.min(part.tokens);
        part.tokens -= own;
        part.loan = loan - (settled.granted - own);
        self.tokens -= settled.granted;
        if part.used >= 0 {
            part.used += (settled.granted - own) as i64;
        }
        if short && settled.granted < count && part.used >= 0 && !matches!(operation, Operation::Peek(_)) {
            (part.used, changed) = (-1, true);
        }
        if settled.missing > 0 && !self.is_due(now) {
            let goal = settled.tokens.max(0) as u64 + settled.missing;
            settled.wait = self.wait_for(index, goal, now, fault);
        }
        (settled.into(), changed)
    }

    fn put_back(
        &mut self,
        index: usize,
        operation: Operation,
        now: u64,
        fault: Option<ShareFault>,
    ) -> Settled {
        let part = &mut self.parts[index];
        let before = part.tokens;
        part.tokens = match operation {
            Operation::Reset => part.capacity,
            _ => part.capacity.min(before + operation.count()),
        };
        let mut back = if operation == Operation::Reset { part.tokens - before } else { operation.count() };
        if fault == Some(ShareFault::RefundsTwice) {
            back *= 2;
        }
        self.tokens = self.capacity.min(self.tokens + back);
        self.dealt = 0;
        Settled {
            verdict: Verdict::Allowed,
            tokens: self.parts[index].tokens.min(self.tokens),
            capacity: self.parts[index].capacity,
            wait: 0,
            headroom: 0,
            now,
            granted: 0,
            counting: false,
        }
    }
}
