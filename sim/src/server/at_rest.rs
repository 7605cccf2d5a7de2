//! Buckets at rest as numbers: native takes of them.

use topup::machine::Reply;
use topup_twin::{AtRest, Bucket, Counter, Record};
use topup_wire::{
    bucket::Pace,
    constants::{NUMBER_TERMS, TAGS},
    scripts::{early_at_rest, number_expires_at, read_left, time_at_rest, units_at_rest},
};

use super::{Executed, Key, Server, Written};
use crate::fault::Fault;

// === impl Written ===

impl Written {
    /// By how much takes at rest of `count` tokens move a number.
    pub(super) const fn units(&self, count: u64) -> i64 {
        (count * units_at_rest(self.terms.pace)) as i64
    }

    /// µs in which `count` tokens come.
    pub(crate) const fn time_of(&self, count: u64) -> u64 {
        time_at_rest(self.terms.pace, count)
    }

    /// Tokens that come in `micros`, rounded up.
    pub(super) const fn tokens_in(&self, micros: u64) -> u64 {
        let Pace { n, p } = self.terms.pace;
        (micros * n).div_ceil(p)
    }

    /// Tokens that a first take of `count` leaves too many, since it names an instant that has passed. A quarter of a
    /// token is left to the bound.
    pub(super) fn tokens_late(&self, count: u64, first_at: u64, now: u64) -> u64 {
        let late = now.saturating_sub(first_at);
        if late > early_at_rest(self.terms.pace) { self.tokens_in(late).min(count) } else { 0 }
    }

    /// The tokens that a bare take has left of a counter of these terms.
    pub(super) fn left(&self, number: i64) -> Option<i64> {
        read_left(number, self.capacity.get(), self.terms.pace)
    }

    /// The key of a first take that names the full instant, which is `full_at` after all of it.
    fn key(&self, named: u64, full_at: u64, now: u64) -> Key {
        let tag = (self.terms.id % TAGS) as u16;
        let expires = number_expires_at(self.terms.pace, full_at);
        let bucket = Bucket::AtRest(AtRest::Until { tag, full_at: named, early: 0, hold: 0 });
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
    pub(super) fn first_as_number(&mut self, key: usize, full_at: u64, written: Written, now: u64) -> bool {
        let writes = self.keys[key].is_absent() || self.fault == Some(Fault::FirstTakeOverwrites);
        if writes {
            self.keys[key] = written.key(full_at, full_at, now);
            // It may have come too late.
            self.expire(key, now);
        }
        writes
    }

    /// `DECRBY`, after a `SET … NX` where `first_at` is an instant.
    pub(super) fn take_at_rest(
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
}
