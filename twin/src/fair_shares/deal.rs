//! Deals of the pool.

use topup_wire::bucket::Pace;

use super::{
    fault::ShareFault,
    state::{FairShares, SharePart},
};
use crate::time::Credit;

/// A part in need during a deal.
struct Needy {
    index: usize,
    need: f64,
    weight: f64,
}

// === impl FairShares ===

impl FairShares {
    /// Takes all loans back, and deals the pool. The part at `asking` is in need.
    pub(super) fn deal(&mut self, asking: usize, now: u64, fault: Option<ShareFault>) {
        // Doubles, as in Lua.
        let exact = |capacity: u64, pace: Pace, tokens: u64, at: u64| {
            let tokens = tokens as f64 + now.saturating_sub(at) as f64 * pace.n as f64 / pace.p as f64;
            tokens.min(capacity as f64)
        };
        let tokens_of = |part: &SharePart| match fault {
            Some(ShareFault::LendsFractions) => part.tokens as f64,
            _ => exact(part.capacity, part.pace, part.tokens, part.at),
        };
        let period = self.period as f64;
        let soon = |part: &SharePart, tokens: f64| {
            let more = period * part.pace.n as f64 / part.pace.p as f64;
            (tokens + more).min(part.capacity as f64)
        };
        let (mut own, mut ahead, mut needy) = (0.0, 0.0, Vec::new());
        (self.dealt, self.lends) = (now, false);
        for (index, part) in self.parts.iter_mut().enumerate() {
            let tokens = tokens_of(part);
            if index != asking {
                (own, ahead) = (own + tokens, ahead + soon(part, tokens));
            }
            if part.used != 0 {
                let need = if part.used < 0 { f64::INFINITY } else { (2 * part.used + 1) as f64 };
                let weight = match fault {
                    Some(ShareFault::DealsEvenly) => 1.0,
                    _ => part.pace.n as f64 / part.pace.p as f64,
                };
                needy.push(Needy { index, need, weight });
            } else {
                part.carry = 0.0;
                self.lends |= soon(part, tokens) == part.capacity as f64;
            }
            part.used = 0;
            if fault != Some(ShareFault::KeepsLoans) {
                part.loan = 0;
            }
        }
        let (most, capacity) = (exact(self.capacity, self.pace, self.tokens, self.at), self.capacity as f64);
        let part = &mut self.parts[asking];
        let pool = |part: &SharePart, tokens: f64| match fault {
            Some(ShareFault::LendsOwn) => most,
            Some(ShareFault::LendsRoom) => most - own - tokens,
            Some(ShareFault::NeverDeals) => 0.0,
            _ => (most - own - tokens).min(capacity - ahead - soon(part, tokens)),
        };
        let rest = pool(part, tokens_of(part)).floor().max(0.0);
        self.lends |= rest > 0.0;
        let next = (part.tokens + 1) as f64;
        let completes = match fault {
            Some(ShareFault::NeverDeals) => false,
            Some(ShareFault::CompletesAny) => true,
            _ => most == capacity && pool(part, next) >= rest,
        };
        if completes && part.tokens < part.capacity {
            (part.tokens, part.at) = (part.tokens + 1, part.pace.start(now));
        }
        self.deal_to(needy, rest);
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
}
