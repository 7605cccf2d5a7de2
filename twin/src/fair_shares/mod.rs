//! The twin of `fair_shares.lua`: a limit whose parts lend to each other.

mod begun;
mod deal;

use std::sync::Arc;

use topup_wire::{
    bucket::{Operation, Pace},
    constants::EXACT,
    limit::{Limit, Part, Parts},
    reply::{Settled, Verdict},
};

use crate::{
    apply::{apply, unknown, without_debt},
    record::Record,
};

/// The terms of a limit with fair shares.
#[derive(Clone, Debug)]
pub struct ShareTerms {
    /// The limit's record.
    pub record: Record,
    parts: Parts,
    under: Arc<[Part]>,
    period: u64,
}

/// The bucket of a part, and its loan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharePart {
    /// The most tokens of its own.
    pub capacity: u64,
    /// Its rate.
    pub pace: Pace,
    /// Tokens of its own.
    pub tokens: u64,
    /// The instant up to which they have been credited.
    pub at: u64,
    /// Tokens that are lent to it.
    pub loan: u64,
    /// Lent tokens that it has taken since the last deal; -1 if they were too few.
    pub used: i64,
    /// The part of a token that it is owed at the next deal, below 0 if it has had one too many.
    pub carry: f64,
}

/// The state of a limit with fair shares.
#[derive(Clone, Debug, PartialEq)]
pub struct FairShares {
    /// The instant since which the terms apply.
    pub since: u64,
    /// The most tokens of all parts.
    pub capacity: u64,
    /// The rate of all parts.
    pub pace: Pace,
    /// Tokens of all parts.
    pub tokens: u64,
    /// The instant up to which they have been credited.
    pub at: u64,
    /// The instant of the last deal; 0 if loans are void.
    pub dealt: u64,
    /// The time for which loans are good.
    pub period: u64,
    /// The instant at which the key expires.
    pub expires: u64,
    /// Whether the next deal may have something to lend.
    pub lends: bool,
    /// Names and terms of the parts.
    under: Arc<[Part]>,
    /// The parts, in that order.
    pub parts: Vec<SharePart>,
}

/// A mistake to be found by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareFault {
    /// The tokens that come while a part is full are counted twice.
    CreditsTwice,
    /// A refund counts for the part and for the pool.
    RefundsTwice,
    /// The pool is all that is in the total.
    LendsOwn,
    /// The share of a token that has come to a part is lent.
    LendsFractions,
    /// A full total has room for what is lent and for what parts get.
    LendsRoom,
    /// A deal adds to loans that were not used.
    KeepsLoans,
    /// A loan is good for ever.
    LoansOutlive,
    /// A deal does not look at weights.
    DealsEvenly,
    /// Nothing is lent.
    NeverDeals,
    /// A part with other terms begins full.
    FillsOnChange,
}

// === impl ShareTerms ===

impl ShareTerms {
    /// The terms of `limit`, whose record is `record`.
    ///
    /// # Panics
    /// If its parts do not fit its terms.
    #[allow(clippy::expect_used, reason = "a limit that no config makes")]
    pub fn new(limit: &Limit, record: Record) -> Self {
        let terms = limit.terms;
        let pace = terms.supply.pace();
        let under = limit.parts.under(terms.capacity, pace).expect("parts fit the terms").into();
        let period = limit.parts.period(terms.capacity, pace, record.tick).expect("parts fit the terms");
        Self { record, parts: limit.parts.clone(), under, period }
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.under
    }

    /// The time for which a deal holds, in µs.
    pub const fn period(&self) -> u64 {
        self.period
    }

    /// The index of the part of `key`.
    pub fn index_of(&self, key: &str) -> usize {
        let name = self.parts.of(key);
        self.under.iter().position(|part| Some(part.name.as_str()) == name).unwrap_or_default()
    }

    fn under(&self, part: &Part) -> Record {
        Record { capacity: part.capacity, pace: part.pace, ..self.record }
    }
}

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

    fn credit_total(&mut self, terms: &ShareTerms, now: u64, fault: Option<ShareFault>) {
        let before = self.tokens;
        let (tokens, at) = terms.record.credit(self.tokens as i64, self.at, now);
        (self.tokens, self.at) = (tokens as u64, at);
        if fault == Some(ShareFault::CreditsTwice) && self.parts.iter().any(|one| one.tokens == one.capacity)
        {
            self.tokens = (2 * self.tokens - before).min(self.capacity);
        }
    }

    fn credit_part(&mut self, terms: &ShareTerms, index: usize, now: u64) {
        let part = &mut self.parts[index];
        let (tokens, at) = terms.under(&terms.under[index]).credit(part.tokens as i64, part.at, now);
        (part.tokens, part.at) = (tokens as u64, at);
    }

    /// Tokens of the loan of a part.
    fn lent(&self, index: usize, now: u64, fault: Option<ShareFault>) -> u64 {
        let is_good = self.dealt <= now && now < self.dealt + self.period;
        let is_good = is_good || fault == Some(ShareFault::LoansOutlive);
        if is_good { self.parts[index].loan } else { 0 }
    }

    /// Whether the next take in need deals.
    const fn is_due(&self, now: u64) -> bool {
        now >= self.dealt + self.period || self.dealt > now
    }

    /// The tokens that the part may take.
    fn at_hand(&self, index: usize, now: u64, fault: Option<ShareFault>) -> u64 {
        (self.parts[index].tokens + self.lent(index, now, fault)).min(self.tokens)
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
            self.deal(now, fault);
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

    /// µs until the part may take `goal` tokens.
    fn wait_for(&self, index: usize, goal: u64, now: u64, fault: Option<ShareFault>) -> u64 {
        let part = &self.parts[index];
        let reached = |pace: Pace, at: u64, more: u64| if more > 0 { pace.instant(at, more) } else { now };
        let next_deal = self.dealt + self.period;
        let own = |loan: u64| reached(part.pace, part.at, goal.saturating_sub(part.tokens + loan));
        let mut by_own = own(self.lent(index, now, fault));
        if by_own >= next_deal {
            by_own = own(0);
        }
        if self.lends {
            by_own = by_own.min(next_deal.max(reached(self.pace, self.at, 1)));
        }
        let by_total = reached(self.pace, self.at, goal.saturating_sub(self.tokens));
        by_own.max(by_total).saturating_sub(now)
    }

    /// Lets the key live for a while after the limit is full.
    fn prolong(&mut self, now: u64) {
        // Doubles, as in Lua.
        let fill = (self.capacity as f64 / self.pace.n as f64 * self.pace.p as f64).ceil() + 1_000.0;
        if (self.expires as f64) < now as f64 + fill {
            let longer = now as f64 + fill + (fill / 8.0).floor().max(1_000_000.0);
            self.expires = longer.min(EXACT as f64) as u64;
        }
    }
}
