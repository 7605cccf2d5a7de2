//! The laws of definitions: see [the module above](super).

use topup_wire::limit::OnChange;

use super::{
    KEYS, RULES, STEP, World,
    history::{Answer, Asked, Seen, Told},
};
use crate::{
    clients::{Call, Rule, never_over},
    plan::SECOND,
};

/// From a poll to the next one.
const POLL: u64 = SECOND / 4;
/// A definition goes on for so long after its caller has given up.
const GOES_ON: u64 = 8 * SECOND;

// === impl World ===

impl World {
    pub(super) fn judge(&self) -> Result<(), String> {
        let told = self.told();
        self.owner(&told)?;
        self.at_most(&told)?;
        for (key, calls) in self.clients.calls_of(KEYS.len()).iter().enumerate() {
            let key = KEYS[key];
            self.effective(&told, calls).map_err(|law| format!("{law}, key {key}"))?;
            self.ended(&told, calls).map_err(|law| format!("{law}, key {key}"))?;
            self.never_over(calls).map_err(|law| format!("{law}, key {key}, {:?}", self.seen))?;
        }
        Ok(())
    }

    /// Every client knows of what was so long ago.
    fn known(&self) -> u64 {
        if self.is_late { 3 * SECOND } else { POLL + STEP + 8 * self.clients.slowest }
    }

    /// When every client knows of what was at `at`. None learns anything while Redis is away.
    fn known_by(&self, at: u64) -> u64 {
        let met = |by: u64, outage: &(u64, u64)| {
            if outage.0 <= by && at <= outage.1 { by.max(outage.1.saturating_add(self.known())) } else { by }
        };
        self.outages.iter().fold(at.saturating_add(self.known()), met)
    }

    /// The first loss of all data at `from` or later, or `until`.
    fn until_flush(&self, from: u64, until: u64) -> u64 {
        self.flushes.iter().filter(|at| **at >= from).fold(until, |until, at| until.min(*at))
    }

    /// Up to when the limit is surely that of an answered call.
    fn sure_until(&self, told: &[Told], one: &Told) -> u64 {
        let until = match one.asked {
            Asked::Define(owner, lasts) => {
                let ends =
                    |other: &&Told| other.asked == Asked::Undefine(owner) && other.received >= one.sent;
                told.iter().filter(ends).fold(one.sent + lasts, |until, other| until.min(other.sent))
            }
            _ => one.received,
        };
        self.until_flush(one.sent, until)
    }

    fn owner(&self, told: &[Told]) -> Result<(), String> {
        let gets = |one: &&Told| one.answer == Answer::Done && !matches!(one.asked, Asked::Undefine(_));
        for one in told.iter().filter(gets) {
            let (is_config, until) = (one.asked == Asked::Config, self.sure_until(told, one));
            let from = if is_config { one.sent } else { one.received };
            let takes = |other: &&Told| {
                let by = if other.asked == Asked::Config { other.sent } else { other.received };
                let is_other = match (one.asked, other.asked) {
                    (Asked::Define(owner, _), Asked::Define(of, _)) => owner != of,
                    _ => one.asked != other.asked,
                };
                is_other && other.sent >= from && by < until
            };
            if let Some(other) = told.iter().filter(gets).find(takes) {
                return Err(format!("owner: {one:?}, but {other:?}"));
            }
        }
        Ok(())
    }

    fn at_most(&self, told: &[Told]) -> Result<(), String> {
        let is_wrong = |one: &&Told| {
            let within = one.sent.saturating_sub(STEP)..=one.received.saturating_add(STEP);
            one.answer == Answer::TooMany && !self.full_at.iter().any(|at| within.contains(at))
        };
        match told.iter().find(is_wrong) {
            Some(one) => Err(format!("at most: {one:?}")),
            None => Ok(()),
        }
    }

    fn effective(&self, told: &[Told], calls: &[Call]) -> Result<(), String> {
        for one in told.iter().filter(|one| one.answer == Answer::Done) {
            if let Asked::Define(..) = one.asked {
                let until = self.sure_until(told, one);
                let is_in = |call: &&Call| call.sent >= one.received && call.received < until;
                if let Some(call) = calls.iter().filter(|call| call.is_unknown).find(is_in) {
                    return Err(format!("in force: {call:?} in {one:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether Redis lost its data during a call, which may have had the limit before it was refused.
    fn is_flushed(&self, one: &Told) -> bool {
        self.flushes.iter().any(|at| (one.sent..=one.received).contains(at))
    }

    /// The instant up to which a call may have the limit in force.
    fn may_be_until(&self, told: &[Told], one: &Told) -> u64 {
        let answered = if one.answer == Answer::Unknown { one.sent + GOES_ON } else { one.received };
        let until = match one.asked {
            Asked::Define(_, lasts) if one.answer != Answer::Refused || self.is_flushed(one) => {
                let undoes = |other: &&Told| {
                    let is_undone = matches!(other.asked, Asked::Undefine(_)) && other.answer == Answer::Done;
                    is_undone && other.sent >= answered
                };
                let undone = told.iter().filter(undoes).map(|other| other.received);
                undone.fold(answered + lasts, u64::min)
            }
            Asked::Config => one.received,
            _ => 0,
        };
        self.until_flush(answered, until)
    }

    fn ended(&self, told: &[Told], calls: &[Call]) -> Result<(), String> {
        let may_be: Vec<(u64, u64)> =
            told.iter().map(|one| (one.sent, self.may_be_until(told, one))).collect();
        for call in calls.iter().filter(|call| call.is_allowed == Some(true)) {
            let is_in =
                |(from, until): &(u64, u64)| *from <= call.received && call.sent < self.known_by(*until);
            if !may_be.iter().any(is_in) {
                return Err(format!("ended: {call:?}"));
            }
        }
        Ok(())
    }

    fn never_over(&self, calls: &[Call]) -> Result<(), String> {
        let calls: Vec<&Call> = calls.iter().filter(|call| call.is_allowed == Some(true)).collect();
        never_over(&calls, |from, until| self.most(from, until) + self.late())
    }

    /// Millionths of a token that commands may take which were late, and met a full bucket: of each client one.
    fn late(&self) -> u128 {
        let rate = RULES.iter().map(|rule| rule.rate).max().unwrap_or(0);
        u128::from(self.clients.all.len() as u64 * rate * self.clients.slowest / 2)
    }

    /// Millionths of a token that a key may have in a window.
    fn most(&self, from: u64, until: u64) -> u128 {
        let mut anew = 0;
        // Clients go on by the terms of a limit that has ended until they know.
        let is_in = |seen: &&Seen| seen.from <= until && from < self.known_by(seen.until);
        let nexts = self.seen.iter().skip(1).map(Some).chain([None]);
        let seen: Vec<_> = self.seen.iter().zip(nexts).filter(|(seen, _)| is_in(seen)).collect();
        let capacity = seen.iter().map(|(seen, _)| seen.rule.capacity).max().unwrap_or(0);
        // In proportion, a bucket keeps its part of the capacity, and the part of the next token.
        let by = |rule: Rule| match self.on_change {
            OnChange::Proportional => capacity.div_ceil(rule.capacity),
            _ => 1,
        };
        let rate = seen.iter().map(|(seen, _)| seen.rule.rate * by(seen.rule)).max().unwrap_or(0);
        for (seen, next) in seen {
            anew += by(seen.rule) - 1;
            anew += if seen.is_anew && seen.from > from { seen.rule.capacity } else { 0 };
            // Clients that do not know of an end find removed buckets full.
            let ends = seen.until < until && next.is_none_or(|next| next.is_anew);
            anew += if ends { seen.rule.capacity } else { 0 };
        }
        let largest = RULES.iter().map(|rule| rule.capacity).max().unwrap_or(0);
        let flushes = self.flushes.iter().filter(|at| (from..=until).contains(*at)).count() as u64;
        let at_once = capacity + anew + 2 * flushes * largest;
        u128::from(at_once * SECOND) + u128::from(rate) * u128::from(until - from)
    }
}
