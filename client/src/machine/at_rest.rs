//! Takes of a bucket at rest by one native command: when they are sent, and what their replies tell.

use topup_wire::{bucket::Pace, scripts::AtRestNumber};

use super::{
    Actions, Adjust, Command, Context, Micros, Reply,
    estimate::Estimate,
    rest::{Rest, has_outlived},
    state::Busy,
};

/// Redis must be asked to keep a bucket for longer at once where its key has no longer to live than this, in µs.
const URGENT: Micros = 3_000;
/// More takers than this at once are better served by a counter.
const MOST_TAKERS: u64 = 3;
/// A first take names the full instant before it is carried out, and may be late by this part of the time of a token.
const LITTLE: u64 = 4;

impl Adjust {
    /// Tokens in doubt after it, once Redis has replied with the value of the bucket. `None` is the reply of which nobody
    /// knows, and the answer that all is well.
    pub fn in_doubt(&self, reply: Option<AtRestNumber>, pace: Pace) -> Option<u64> {
        match reply {
            Some(AtRestNumber::Full(full_at)) if full_at.abs_diff(self.known_full_at) % pace.p == 0 => None,
            // Given to a counter, which takes no notice, or to no bucket: that has left a stray number.
            Some(AtRestNumber::NotAtRest) if self.give > 0 => Some(0),
            // Refused, or lost: what was not given back is missing, and nobody has it.
            None if self.give > 0 => None,
            _ => (self.tokens > 0).then_some(self.tokens),
        }
    }
}

impl Context<'_> {
    /// The instant from which a first take counts, in µs of Redis `TIME`: hardly before it is carried out. `None` where
    /// that cannot be foretold.
    pub(super) fn first_at(&self) -> Option<u64> {
        let late = self.redis.width().saturating_add(2 * self.round_trip);
        (late <= self.terms.pace.p / LITTLE).then(|| self.redis.earliest(self.now))
    }
}

impl<W: super::Waiter> Busy<W> {
    /// The command that takes `count` tokens of a bucket that is not known to have a key.
    pub(super) fn first_take(&self, count: u64, cx: &Context<'_>) -> Command {
        match cx.first_at() {
            Some(first_at) if count == 1 && cx.terms.rests_as_number() => {
                if cx.first_takes_sure {
                    Command::FirstTake { count, full_at: first_at + cx.terms.pace.p }
                } else {
                    Command::TakeAtRest { count, first_at }
                }
            }
            _ => Command::FirstTake { count, full_at: 0 },
        }
    }

    /// Whether a native take of `count` tokens of a bucket at rest is likely to find them.
    pub(super) fn may_take_at_rest(&self, count: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        let headroom = rest.until.saturating_sub(cx.now);
        headroom > 0
            && count <= MOST_TAKERS
            && cx.terms.rests_as_number()
            && self.is_certain()
            && self.gathered == 0
            && cx.is_trusted()
            && cx.redis.width() <= cx.terms.pace.p / LITTLE
            && cx.terms.missing(headroom).saturating_add(count) <= cx.terms.capacity
            && !self.estimate.may_be_counting(cx)
            && !self.estimate.denies(cx.now)
    }

    /// Whether the bucket may become a counter with the next settle.
    pub(super) fn may_count(&self, takers: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        let often = takers > MOST_TAKERS
            || if cx.terms.rests_as_number() {
                rest.is_busy(cx.now, cx.terms)
            } else {
                rest.comes_again(cx.now, cx.terms.time_of(takers))
            };
        let pays = often || cx.terms.lease.is_some();
        pays && cx.terms.counts() && cx.daemon_alive && cx.is_trusted()
    }

    /// Whether takes at rest go on, though a counter would serve as well.
    pub(super) fn rests_on(&self, count: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        let missing = cx.terms.missing(rest.until.saturating_sub(cx.now)).saturating_add(count);
        cx.terms.lease.is_none()
            && !(rest.is_busy(cx.now, cx.terms)
                && cx.daemon_alive
                && missing >= topup_wire::constants::COUNT_FROM)
    }

    /// Learns from the reply to a take at rest of `count` tokens, of which `granted` were there: until when the bucket has a
    /// key.
    pub(super) fn learn_at_rest(
        &mut self,
        (count, first_at): (u64, u64),
        reply: &Reply,
        (granted, sent): (u64, Micros),
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> Option<Micros> {
        match *reply {
            // The take has used up time that had passed already: nobody has its tokens, and none are missing.
            Reply::AtRest(full_at) if has_outlived(count, full_at, sent, cx) => self.forget(),
            Reply::AtRest(full_at) => {
                self.estimate = Estimate::default();
                let before = full_at.saturating_sub(cx.terms.time_of(count));
                if granted == 0 {
                    out.adjust(Adjust {
                        give: count,
                        tokens: count,
                        known_full_at: full_at,
                        ..Adjust::default()
                    });
                    if count > 1 {
                        // There may be some of them.
                        self.settle_next = true;
                        return None;
                    }
                    self.estimate = Estimate::of_denial_at_rest(full_at, sent, cx);
                    return Some(self.estimate.full_after_denial(cx.terms));
                } else if before == first_at {
                    self.correct_late(count, first_at, cx, out);
                } else {
                    let next = full_at.saturating_add(cx.terms.pace.p);
                    if next > cx.redis.latest(cx.now).saturating_add(cx.terms.time_of(cx.terms.capacity)) {
                        // That was the last token.
                        self.estimate = Estimate::of_denial_at_rest(next, sent, cx);
                    }
                    let soon = before <= cx.redis.latest(cx.now).saturating_add(URGENT);
                    out.adjust(Adjust {
                        full_at,
                        tokens: count,
                        known_full_at: full_at,
                        soon,
                        ..Adjust::default()
                    });
                }
                return Some(cx.redis.local(full_at));
            }
            // What it has moved is the time of other terms' tokens: nobody has it.
            Reply::OtherTerms => self.forget(),
            _ => {
                // Either it counts, or it had no key and this has left a stray number.
                self.forget();
                self.must_settle = !matches!(reply, Reply::NotCounting);
            }
        }
        None
    }

    /// A correction came too late, and met another bucket or none: so many tokens may be forgotten.
    pub(super) fn not_adjusted(&mut self, tokens: u64, cx: &Context<'_>, out: &mut Actions<W>) {
        (self.doubt, self.must_settle) = (self.doubt.saturating_add(tokens), true);
        self.dispatch(cx, out);
    }

    /// A first take that may have been carried out after the instant it named lets the bucket be full too early, by its own
    /// tokens at most. The bucket is made full later by whole tokens: so a counter that the correction meets instead stays
    /// what it is.
    pub(super) fn correct_late(&mut self, count: u64, first_at: u64, cx: &Context<'_>, out: &mut Actions<W>) {
        let (late, p) = (cx.redis.latest(cx.now).saturating_sub(first_at), cx.terms.pace.p);
        if late > p / LITTLE {
            let later = late.div_ceil(p).min(count) * p;
            out.adjust(Adjust {
                later,
                full_at: first_at + count * p + later,
                tokens: count,
                known_full_at: first_at,
                soon: true,
                ..Adjust::default()
            });
        }
    }
}
