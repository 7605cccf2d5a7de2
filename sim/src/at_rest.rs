//! Buckets at rest as numbers: native takes of them, and corrections.

use topup::machine::{Correction, Reply};
use topup_twin::{AtRest, Bucket, Counter, Record};
use topup_wire::{
    bucket::Pace,
    constants::{NUMBER_TERMS, TAGS},
    scripts::{
        AtRestNumber, number_at_rest, read_left, read_number_at_rest, read_text_at_rest, time_at_rest,
        units_at_rest,
    },
};

use crate::{
    fault::Fault,
    server::{Executed, Key, Server, Written},
};

/// The result of a correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrected {
    /// The reply of Redis.
    pub(crate) reply: AtRestNumber,
    /// The key is not the one that the tokens were taken of.
    pub(crate) is_another: bool,
    /// Tokens were given back, or the bucket was made full later.
    pub(crate) shifted: bool,
    /// Tokens that the bucket has fewer than none.
    pub(crate) debt: u64,
}

// === impl Written ===

impl Written {
    /// By how much takes at rest of `count` tokens move a number.
    const fn units(&self, count: u64) -> i64 {
        (count * units_at_rest(self.terms.pace)) as i64
    }

    /// µs in which `count` tokens come.
    pub(crate) const fn time_of(&self, count: u64) -> u64 {
        time_at_rest(self.terms.pace, count)
    }

    /// Tokens that come in `micros`, rounded up.
    const fn tokens_in(&self, micros: u64) -> u64 {
        let Pace { n, p } = self.terms.pace;
        (micros * n).div_ceil(p)
    }

    /// Tokens that a first take of `count` leaves too many, since it names an instant that has passed. A quarter of a
    /// token is left to the bound.
    pub(crate) fn tokens_late(&self, count: u64, first_at: u64, now: u64) -> u64 {
        let late = now.saturating_sub(first_at);
        if late > self.terms.pace.p / (4 * self.terms.pace.n) { self.tokens_in(late).min(count) } else { 0 }
    }

    /// The tokens that a bare take has left of a counter of these terms.
    pub(crate) fn left(&self, number: i64) -> Option<i64> {
        read_left(number, self.capacity.get(), self.terms.pace)
    }

    /// The key of a first take that names the full instant, and how long it lives.
    fn key(&self, full_at: u64, lives_until: u64, now: u64) -> Key {
        let tag = (self.terms.id % TAGS) as u16;
        let expires = lives_until.div_ceil(1_000);
        let bucket = Bucket::AtRest(AtRest::Until { tag, full_at, early: 0, hold: 0 });
        Key { bucket, expires, stray: None, number: true, born: now }
    }
}

// === impl Key ===

impl Key {
    /// Whether Redis has a key.
    pub(crate) fn is_absent(&self) -> bool {
        self.bucket == Bucket::Absent && self.stray.is_none()
    }

    /// Sets the key as a script that has just run writes it.
    pub(crate) fn written(&mut self, record: &Record, now: u64) {
        self.stray = None;
        self.born = if self.born == 0 { now } else { self.born };
        self.expires = if let Bucket::AtRest(at_rest) = self.bucket { at_rest.expiry(record) } else { 0 };
        let exact = matches!(self.bucket, Bucket::AtRest(AtRest::Until { hold: 0, .. }));
        self.number = exact && record.rests_as_number(now);
    }
}

// === impl Server ===

impl Server {
    /// `SET … PX … NX` of a number.
    pub(crate) fn first_as_number(&mut self, key: usize, full_at: u64, written: Written, now: u64) -> bool {
        let writes = self.keys[key].is_absent() || self.fault == Some(Fault::FirstTakeOverwrites);
        if writes {
            self.keys[key] = written.key(full_at, full_at, now);
            // It may have come too late.
            self.expire(key, now);
        }
        writes
    }

    /// `DECRBY`, after a `SET … NX` where `first_at` is an instant.
    pub(crate) fn take_at_rest(
        &mut self,
        at: usize,
        count: u64,
        first_at: u64,
        written: Written,
        now: u64,
        executed: &mut Executed,
    ) {
        let created = first_at > 0 && self.keys[at].is_absent();
        if created {
            self.keys[at] = written.key(first_at, first_at + written.time_of(count), now);
            executed.overflow = written.tokens_late(count, first_at, now);
            self.expire(at, now);
        }
        let is_previous = self.record.is_some_and(|record| record.terms_id != written.terms.id);
        let key = &mut self.keys[at];
        let units = written.units(count);
        executed.born = key.born;
        executed.reply = match &mut key.bucket {
            Bucket::AtRest(AtRest::Until { tag, .. }) if key.number => {
                let same = u64::from(*tag) % NUMBER_TERMS == written.terms.id % NUMBER_TERMS;
                let full_at = topup_twin::move_at_rest(&mut key.bucket, units);
                executed.granted = count;
                match full_at {
                    Some(full_at) if same || self.fault == Some(Fault::OtherTermsUnseen) => {
                        // The command came later after a change than any worker allows, and counts as carried out
                        // before it.
                        if is_previous {
                            self.gifts.push((at, count, true));
                        }
                        Reply::AtRest { full_at, was_full: created }
                    }
                    _ => Reply::OtherTerms,
                }
            }
            Bucket::AtRest(_) => Reply::NotCounting,
            Bucket::Counting(Counter { tokens, .. }) => {
                *tokens = tokens.saturating_sub(units);
                Reply::NotAtRest
            }
            Bucket::Absent => {
                key.stray = Some(key.stray.unwrap_or(0).saturating_sub(units));
                Reply::NotAtRest
            }
        };
    }

    /// A correction of the bucket as it was when its key was `born`.
    pub(crate) fn adjust(
        &mut self,
        at: usize,
        adjust: Correction,
        written: Written,
        born: u64,
        now: u64,
    ) -> Corrected {
        self.expire(at, now);
        let is_another = self.keys[at].is_absent() || self.keys[at].born != born;
        let shifted = adjust.shift() != (0, 0) && self.shift(at, adjust, written);
        let key = &mut self.keys[at];
        if adjust.lives_until() > 0 {
            let until = written.terms.lives_until(adjust.lives_until()).div_ceil(1_000);
            let later = matches!(key.bucket, Bucket::AtRest(_)) && until > key.expires;
            if later && self.fault != Some(Fault::ExpiryStays) {
                key.expires = until;
                if let Bucket::AtRest(AtRest::FirstTake { expires, .. }) = &mut key.bucket {
                    *expires = until;
                }
            }
        }
        let (mut reply, mut debt) = (AtRestNumber::NotAtRest, 0);
        if let Bucket::AtRest(AtRest::Until { tag, full_at, hold, .. }) = key.bucket
            && (key.number || hold > 0)
        {
            let missing = written.tokens_in(full_at.saturating_sub(now));
            debt = missing.saturating_sub(written.capacity.get());
            let tag = if self.fault == Some(Fault::OtherTermsUnseen) { written.terms.id } else { tag.into() };
            reply = match read_number_at_rest(number_at_rest(tag, full_at), written.terms.id) {
                AtRestNumber::Full(full_at) if !key.number => AtRestNumber::Held(full_at),
                reply => reply,
            };
        }
        if let Bucket::AtRest(AtRest::Debt { tag, at: since, debt: owed, .. }) = key.bucket {
            // As `read_text_at_rest`, of the value as rest.lua writes it.
            let text = format!("d{tag:04}{since:016}{:016}{owed}", 0);
            reply = read_text_at_rest(
                text.as_bytes(),
                written.terms.id,
                written.capacity.get(),
                written.terms.pace,
            );
            debt = owed;
        }
        Corrected { reply, is_another, shifted, debt }
    }

    /// `INCRBY`: whether the number it leaves is a bucket at rest.
    fn shift(&mut self, at: usize, adjust: Correction, written: Written) -> bool {
        let (mut give, mut later) = adjust.shift();
        match self.fault {
            Some(Fault::KeptAtRest) => give = 0,
            Some(Fault::GivenTwice) => give *= 2,
            Some(Fault::LateFirstTake) => later = 0,
            _ => {}
        }
        let key = &mut self.keys[at];
        let units = written.units(later) - written.units(give);
        match &mut key.bucket {
            Bucket::AtRest(AtRest::Until { .. }) if key.number => {
                topup_twin::move_at_rest(&mut key.bucket, units);
                return true;
            }
            Bucket::AtRest(_) => {}
            Bucket::Counting(Counter { tokens, .. }) => *tokens = tokens.saturating_sub(units),
            Bucket::Absent => key.stray = Some(key.stray.unwrap_or(0).saturating_sub(units)),
        }
        false
    }
}
