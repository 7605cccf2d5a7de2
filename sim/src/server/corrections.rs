//! Corrections of buckets at rest, as Redis carries them out.

use topup::machine::Correction;
use topup_twin::{AtRest, Bucket, Counter};
use topup_wire::scripts::{
    AtRestNumber, number_at_rest, number_expires_at, read_number_at_rest, read_text_at_rest,
};

use super::{Corrected, Server, Written};
use crate::fault::Fault;

// === impl Server ===

impl Server {
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
            let full_at = written.terms.lives_until(adjust.lives_until());
            let until = number_expires_at(written.terms.pace, full_at);
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
