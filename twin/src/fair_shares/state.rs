//! The state of a limit with fair shares, and the tokens of a part in it.

use std::sync::Arc;

use topup_wire::{bucket::Pace, limit::Part};

use super::{fault::ShareFault, terms::ShareTerms};

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
    pub(super) under: Arc<[Part]>,
    /// The parts, in that order.
    pub parts: Vec<SharePart>,
}

// === impl FairShares ===

impl FairShares {
    pub(super) fn credit_total(&mut self, terms: &ShareTerms, now: u64, fault: Option<ShareFault>) {
        let before = self.tokens;
        let (tokens, at) = terms.record.credit(self.tokens as i64, self.at, now);
        (self.tokens, self.at) = (tokens as u64, at);
        if fault == Some(ShareFault::CreditsTwice) && self.parts.iter().any(|one| one.tokens == one.capacity)
        {
            self.tokens = (2 * self.tokens - before).min(self.capacity);
        }
    }

    pub(super) fn credit_part(&mut self, terms: &ShareTerms, index: usize, now: u64) {
        let part = &mut self.parts[index];
        let (tokens, at) = terms.under(&terms.under[index]).credit(part.tokens as i64, part.at, now);
        (part.tokens, part.at) = (tokens as u64, at);
    }

    /// Tokens of the loan of a part.
    pub(super) fn lent(&self, index: usize, now: u64, fault: Option<ShareFault>) -> u64 {
        let is_good = self.dealt <= now && now < self.dealt + self.period;
        let is_good = is_good || fault == Some(ShareFault::LoansOutlive);
        if is_good { self.parts[index].loan } else { 0 }
    }

    /// Whether the next take in need deals.
    pub(super) const fn is_due(&self, now: u64) -> bool {
        now >= self.dealt + self.period || self.dealt > now
    }

    /// The tokens that the part may take.
    pub(super) fn at_hand(&self, index: usize, now: u64, fault: Option<ShareFault>) -> u64 {
        (self.parts[index].tokens + self.lent(index, now, fault)).min(self.tokens)
    }
}
