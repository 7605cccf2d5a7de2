//! The twin of `fair_shares.lua`: a limit whose parts lend to each other.

use std::sync::Arc;

use topup_wire::{
    bucket::{Operation, Pace},
    constants::EXACT,
    limit::{Limit, OnChange, Part, Parts},
    reply::{Settled, Verdict},
};

use crate::{
    apply::{apply, unknown, without_debt},
    record::{PreviousTerms, Record},
    time::Credit,
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

/// A part in need during a deal.
struct Needy {
    index: usize,
    need: f64,
    weight: f64,
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

    /// The state under `terms`, from one under earlier terms or from none.
    fn begun(terms: &ShareTerms, before: Option<&Self>, now: u64, fault: Option<ShareFault>) -> Self {
        let record = &terms.record;
        let (tokens, at) = record.absent(now);
        let mut begun = Self {
            since: record.since,
            capacity: record.capacity,
            pace: record.pace,
            tokens: tokens as u64,
            at,
            dealt: 0,
            period: terms.period,
            expires: 0,
            lends: false,
            under: terms.under.clone(),
            parts: Vec::with_capacity(terms.under.len()),
        };
        let empty = |part: &Part, tokens: u64, at: u64| SharePart {
            capacity: part.capacity,
            pace: part.pace,
            tokens,
            at,
            loan: 0,
            used: 0,
            carry: 0.0,
        };
        let Some(before) = before else {
            for part in terms.under.iter() {
                // Doubles, as in Lua.
                let some = match begun.tokens >= record.capacity {
                    true => part.capacity,
                    false => (tokens as f64 / record.capacity as f64 * part.capacity as f64) as u64,
                };
                begun.parts.push(empty(part, some, part.pace.start(now)));
            }
            return begun;
        };
        let since = record.since.min(now);
        let changed = |to: Record, capacity: u64, pace: Pace, tokens: u64, at: u64| {
            let previous = PreviousTerms { capacity, pace, filled: 0, on_change: OnChange::Keep };
            let (tokens, at) = Record { since, capacity, ..to }.migrate(previous, tokens as i64, at);
            let (tokens, at) = match record.on_change {
                OnChange::Keep => (tokens, at),
                OnChange::Reset => (to.capacity as i64, at),
                // Doubles, as in Lua.
                OnChange::Proportional => {
                    let tokens = tokens as f64 * record.capacity as f64 / before.capacity as f64;
                    (tokens as i64, to.pace.start(since))
                }
            };
            (tokens.min(to.capacity as i64), at)
        };
        let (tokens, at) = changed(*record, before.capacity, before.pace, before.tokens, before.at);
        let (tokens, at) = record.credit(tokens, at, now);
        (begun.tokens, begun.at) = (tokens as u64, at);
        let mut left = begun.tokens;
        for part in terms.under.iter() {
            let to = terms.under(part);
            let same = before.under.iter().position(|one| one.name == part.name).map(|i| before.parts[i]);
            let (tokens, at) = match same {
                Some(same) => changed(to, same.capacity, same.pace, same.tokens, same.at),
                None => {
                    let is_full = record.on_change == OnChange::Reset;
                    (if is_full { part.capacity as i64 } else { 0 }, part.pace.start(since))
                }
            };
            let (mut tokens, at) = to.credit(tokens, at, now);
            if fault == Some(ShareFault::FillsOnChange) {
                tokens = part.capacity as i64;
            } else {
                tokens = tokens.min(left as i64);
                left -= tokens as u64;
            }
            begun.parts.push(empty(part, tokens as u64, at));
        }
        begun
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

    /// Takes all loans back, and deals the pool.
    fn deal(&mut self, now: u64, fault: Option<ShareFault>) {
        // Doubles, as in Lua.
        let exact = |capacity: u64, pace: Pace, tokens: u64, at: u64| {
            let tokens = tokens as f64 + now.saturating_sub(at) as f64 * pace.n as f64 / pace.p as f64;
            tokens.min(capacity as f64)
        };
        let (mut own, mut ahead, mut needy) = (0.0, 0.0, Vec::new());
        (self.dealt, self.lends) = (now, false);
        for (index, part) in self.parts.iter_mut().enumerate() {
            let tokens = match fault {
                Some(ShareFault::LendsFractions) => part.tokens as f64,
                _ => exact(part.capacity, part.pace, part.tokens, part.at),
            };
            let more = self.period as f64 * part.pace.n as f64 / part.pace.p as f64;
            let soon = (tokens + more).min(part.capacity as f64);
            (own, ahead) = (own + tokens, ahead + soon);
            if part.used != 0 {
                let need = if part.used < 0 { f64::INFINITY } else { (2 * part.used + 1) as f64 };
                let weight = match fault {
                    Some(ShareFault::DealsEvenly) => 1.0,
                    _ => part.pace.n as f64 / part.pace.p as f64,
                };
                needy.push(Needy { index, need, weight });
            } else {
                part.carry = 0.0;
                self.lends |= soon == part.capacity as f64;
            }
            part.used = 0;
            if fault != Some(ShareFault::KeepsLoans) {
                part.loan = 0;
            }
        }
        let most = exact(self.capacity, self.pace, self.tokens, self.at);
        let pool = match fault {
            Some(ShareFault::LendsOwn) => most,
            Some(ShareFault::LendsRoom) => most - own,
            Some(ShareFault::NeverDeals) => 0.0,
            _ => (most - own).min(self.capacity as f64 - ahead),
        };
        let pool = pool.floor().max(0.0);
        self.lends |= pool > 0.0;
        self.deal_to(needy, pool);
    }

    /// Deals `rest` tokens to the parts in need: the smallest needs first, then by weight. Doubles, as in Lua.
    fn deal_to(&mut self, mut needy: Vec<Needy>, mut rest: f64) {
        needy.sort_by(|one, other| (one.need / one.weight).total_cmp(&(other.need / other.weight)));
        let sum = |needy: &[Needy]| needy.iter().map(|one| one.weight).fold(0.0, |sum, weight| sum + weight);
        let (mut first, mut weights) = (0, sum(&needy));
        while let Some(one) = needy.get(first) {
            let fits = one.need <= rest && one.need * weights <= rest * one.weight;
            if !fits {
                break;
            }
            let part = &mut self.parts[one.index];
            part.loan += one.need as u64;
            part.carry = 0.0;
            rest -= one.need;
            weights -= one.weight;
            first += 1;
        }
        if first == needy.len() {
            first = 0;
        }
        let takers = &mut needy[first..];
        let (mut left, weights) = (rest, sum(takers));
        for one in takers.iter() {
            let part = &mut self.parts[one.index];
            let due = rest * one.weight / weights + part.carry;
            let more = due.floor().min(left).max(0.0);
            part.loan += more as u64;
            part.carry = due - more;
            left -= more;
        }
        let carry = |parts: &[SharePart], one: &Needy| parts[one.index].carry;
        takers.sort_by(|one, other| {
            carry(&self.parts, other).total_cmp(&carry(&self.parts, one)).then(one.index.cmp(&other.index))
        });
        for (i, one) in takers.iter().enumerate() {
            let part = &mut self.parts[one.index];
            if ((i + 1) as f64) <= left {
                part.loan += 1;
                part.carry -= 1.0;
            }
            part.carry = part.carry.clamp(-1.0, 1.0);
        }
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
