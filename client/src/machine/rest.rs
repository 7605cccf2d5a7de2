//! A worker's knowledge of a bucket at rest.

use topup_wire::scripts::{early_at_rest, rests_as_number, time_at_rest};

use super::{Context, Kind, Micros, Terms};

/// With this many takes within its headroom, a bucket is better a counter.
const OFTEN: Micros = 16;
/// A key may exist for so many µs longer than it was written for. Its expiry is rounded up to a ms, and Redis removes it
/// when that ms is over.
const EXPIRY: Micros = 2_000;
/// A take may count from a past instant by a token time divided by this.
const PAST_PART: Micros = 10;
/// Headroom beyond this, in µs, is of no use to a counter without a lease.
const LONGEST_USE: Micros = 1_000_000;

/// The state of a bucket at rest in a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// The bucket has a key until then, as far as this worker knows. A first take before that would fail.
    pub(super) until: Micros,
    /// The epoch in which the worker learned it; 0 if the terms of that key are not known.
    epoch: u64,
    /// The lower 32 bits of the instant of the last take; 0 before the first.
    asked_at: u32,
    /// Mean µs from one take to the next; 0 if unknown.
    apart: u32,
}

// === impl Rest ===

impl Rest {
    /// Records a take, after `spent` takes from memory.
    pub(super) fn ask(&mut self, spent: u64, cx: &Context<'_>) {
        let now = cx.now as u32;
        let before = std::mem::replace(&mut self.asked_at, now);
        if before > 0 {
            let apart = Micros::from(now.wrapping_sub(before)) / spent.saturating_add(1);
            let apart = apart.clamp(1, cx.terms.longest_use()) as u32;
            self.apart = if self.apart == 0 { apart } else { self.apart.midpoint(apart) };
        }
    }

    /// Learns that the bucket has a key until `until`.
    pub(super) fn learn(&mut self, until: Micros, cx: &Context<'_>) {
        self.until = until;
        self.epoch = if cx.is_trusted() { cx.epoch } else { 0 };
    }

    /// Whether the bucket's key may be of earlier terms.
    pub(super) fn may_be_of_earlier_terms(&self, cx: &Context<'_>) -> bool {
        self.epoch != cx.epoch && cx.has_earlier_terms()
    }

    /// Whether the bucket may have a key, though it is full.
    pub(super) fn may_have_key(&self, cx: &Context<'_>) -> bool {
        self.until > 0 && cx.now < self.until.saturating_add(early_at_rest(cx.terms.pace))
    }

    /// When the bucket's key has expired, as far as this worker knows; 0 if it knows of no key.
    pub(super) fn expires_at(&self, cx: &Context<'_>) -> Micros {
        let outlives = early_at_rest(cx.terms.pace).saturating_add(EXPIRY);
        if self.until > 0 { self.until.saturating_add(outlives) } else { 0 }
    }

    /// Whether the next take is likely to come while the bucket is below full. The tokens of this one come back in `time`.
    pub(super) fn comes_again(&self, now: Micros, time: Micros) -> bool {
        let headroom = self.until.saturating_sub(now).saturating_add(time);
        2 * Micros::from(self.apart) <= headroom
    }

    /// Whether takes come so often, and find so many tokens, that a counter is cheaper.
    pub(super) fn is_busy(&self, now: Micros, terms: &Terms) -> bool {
        let tokens = terms.capacity.saturating_sub(terms.missing(self.until.saturating_sub(now)));
        tokens >= OFTEN
            && self.apart > 0
            && Micros::from(self.apart) * OFTEN <= self.until.saturating_sub(now).min(terms.longest_use())
    }
}

impl Terms {
    /// Headroom beyond this, in µs, is of no use to a counter.
    fn longest_use(&self) -> Micros {
        self.lease.map_or(LONGEST_USE, |lease| lease.ttl.max(LONGEST_USE))
    }

    /// Whether buckets at rest are kept as numbers.
    pub fn rests_as_number(&self) -> bool {
        self.kind == Kind::TwoForms && rests_as_number(self.capacity, self.pace)
    }

    /// Whether a take at rest of `count` tokens got them. `full_at` is the full instant after the take. Redis `TIME` was
    /// `earliest` or later when the take was sent. Both are µs of Redis `TIME`.
    pub fn grants_at_rest(&self, count: u64, full_at: u64, earliest: u64) -> bool {
        full_at <= earliest.saturating_add(self.time_of(self.capacity))
            && !self.has_outlived(count, full_at, earliest)
    }

    /// Whether the key still existed long after the bucket was full, so that a take of `count` tokens counted from a past
    /// instant. `full_at` is the full instant after that take. A put-back causes this, since no expiry is ever moved to an
    /// earlier instant. A step back of the clock of Redis causes it, too, and at fast rates every expiry.
    pub(super) fn has_outlived(&self, count: u64, full_at: u64, earliest: u64) -> bool {
        let allowed = early_at_rest(self.pace) + EXPIRY.min(self.token_time() / PAST_PART);
        full_at.saturating_sub(self.time_at_rest(count)).saturating_add(allowed) < earliest
    }

    /// µs by which takes at rest of `count` tokens move the full instant, rounded up.
    pub(super) fn time_at_rest(&self, count: u64) -> Micros {
        time_at_rest(self.pace, count)
    }

    /// Tokens missing of a bucket that is full in `headroom` µs.
    pub(super) fn missing(&self, headroom: Micros) -> u64 {
        headroom.saturating_mul(self.pace.n.max(1)).div_ceil(self.pace.p.max(1))
    }
}

/// Tokens in a bucket at rest that is full at `full_at`.
pub(super) fn tokens_at_rest(full_at: u64, cx: &Context<'_>) -> u64 {
    let headroom = full_at.saturating_sub(cx.redis.latest(cx.now));
    cx.terms.capacity.saturating_sub(cx.terms.missing(headroom))
}
