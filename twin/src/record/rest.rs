//! Buckets at rest under a record, and their counters.

use topup_wire::{
    constants::TAGS,
    scripts::{is_clean_counter, read_counter, rests_as_number},
};

use super::Record;

// === impl Record ===

impl Record {
    /// Whether buckets at rest of a token bucket under these terms are kept as integers, once an absent one is full.
    pub(crate) fn may_rest_as_number(&self) -> bool {
        self.catch_up && rests_as_number(self.capacity, self.pace)
    }

    /// The tokens of a counter that holds `number`, and whether takes of a bucket at rest have met it.
    pub fn counted(&self, number: i64) -> (u64, bool) {
        if !self.may_rest_as_number() || is_clean_counter(number, self.capacity, self.pace) {
            return (number.max(0) as u64, false);
        }
        (read_counter(number, self.capacity, self.pace).unwrap_or(0), true)
    }

    /// Whether buckets may be at rest: they fill at a rate, and a settle credits the tokens owed.
    pub(crate) const fn rests(&self) -> bool {
        self.pace.n > 0 && self.catch_up
    }

    /// The tag of the present terms in a value at rest.
    pub(crate) fn tag(&self) -> u16 {
        (self.terms_id % TAGS) as u16
    }

    /// Whether a bucket of `tokens` needs no key.
    pub(crate) fn vanishes(&self, tokens: i64, now: u64) -> bool {
        let full = self.capacity as i64;
        tokens >= full && self.absent(now).0 >= full
    }
}
