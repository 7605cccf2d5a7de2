//! Takes of a bucket at rest by one native command: when they are sent, and how their replies are read.

use topup_wire::{
    constants::{COUNT_FROM, MOST_TAKEN_AT_REST},
    scripts::{InDoubt, early_at_rest},
};

use super::{
    Actions, Command, Context, Correction, FirstTakes, Micros, Reply, busy::Busy, estimate::Estimate,
    rest::Rest,
};

/// A key that lives no longer than this, in µs, is extended at once.
const URGENT: Micros = 3_000;
/// The two clocks drift apart for this many µs of a wait, at most: control polls correct the rest.
const DRIFTS_FOR: Micros = 1_000_000;

impl Context<'_> {
    /// Whether keys of buckets at rest under earlier terms may be left. A take at rest would cost such a bucket tokens.
    pub(super) fn has_earlier_terms(&self) -> bool {
        self.redis.earliest(self.now) < self.terms.earlier_until
    }

    /// The instant from which a first take counts, in µs of Redis `TIME`: shortly before its execution. `None` if that
    /// instant is too uncertain.
    pub(super) fn first_at(&self) -> Option<u64> {
        let late = self.redis.width().saturating_add(2 * self.round_trip);
        (late <= early_at_rest(self.terms.pace)).then(|| self.redis.earliest(self.now))
    }

    /// Whether Redis `TIME` is known well enough for takes at rest.
    fn knows_redis_time(&self) -> bool {
        self.redis.width() <= early_at_rest(self.terms.pace)
    }

    /// Until when takes at rest count on the key of a bucket that a script has settled. It is full in `headroom` µs. They must
    /// be certain of its tokens, though they know Redis `TIME` less well than the script.
    pub(super) fn settled_rests_until(&self, headroom: Micros, sent: Micros) -> Micros {
        match self.unsure_at_rest(headroom) {
            0 => self.terms.rests_until(headroom, sent),
            unsure => self.now.saturating_add(headroom).saturating_add(unsure),
        }
    }

    /// µs for which a take at rest in `wait` µs may not be certain of a token that has come.
    pub(super) fn unsure_at_rest(&self, wait: Micros) -> Micros {
        let takes_at_rest = self.terms.rests_as_number() && self.knows_redis_time();
        if takes_at_rest { self.redis.width().saturating_add(self.drift_in(wait)) } else { 0 }
    }

    /// µs by which Redis `TIME` may be less well known in `wait` µs: 0 while it is unknown, or exact as in a test.
    pub(super) fn drift_in(&self, wait: Micros) -> Micros {
        let until = self.now.saturating_add(wait.min(DRIFTS_FOR));
        if self.redis.width() > 0 && self.knows_redis_time() { self.redis.drift_until(until) } else { 0 }
    }

    /// Tokens of a take of `count` that the bucket still misses. Without the take, it would have been full before the others
    /// came. `full_at` is the full instant after the take, in µs of Redis `TIME`.
    fn still_missing(&self, count: u64, full_at: u64) -> u64 {
        let headroom = full_at.saturating_sub(self.redis.latest(self.now));
        let token = self.terms.token_time();
        count.min(headroom.saturating_add(early_at_rest(self.terms.pace)) / token)
    }
}

impl<W: super::Waiter> Busy<W> {
    /// The command that takes `count` tokens of a bucket which may have no key.
    pub(super) fn first_take(&self, count: u64, rest: &Rest, cx: &Context<'_>) -> Command {
        let may_have_key = cx.first_takes == FirstTakes::Likely || rest.may_have_key(cx);
        match cx.first_at() {
            Some(first_at) if count == 1 && cx.terms.rests_as_number() => {
                if may_have_key && !rest.may_be_of_earlier_terms(cx) {
                    Command::TakeAtRest { count, first_at }
                } else {
                    Command::FirstTake { count, full_at: first_at + cx.terms.time_at_rest(count) }
                }
            }
            _ => Command::FirstTake { count, full_at: 0 },
        }
    }

    /// Whether a take at rest of `count` tokens is likely to find them.
    pub(super) fn may_take_at_rest(&self, count: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        let headroom = rest.until.saturating_sub(cx.now);
        headroom > 0
            && count <= MOST_TAKEN_AT_REST
            && cx.terms.rests_as_number()
            && !rest.may_be_of_earlier_terms(cx)
            && self.is_certain()
            && cx.is_trusted()
            && cx.knows_redis_time()
            && cx.terms.missing(headroom).saturating_add(count) <= cx.terms.capacity
            && !self.estimate.may_be_counting(cx)
            && !self.estimate.denies(cx.now)
    }

    /// Whether the next settle may begin the counting form.
    pub(super) fn may_count(&self, waiters: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        // More waiters at once are better served by a counter.
        let often = waiters > MOST_TAKEN_AT_REST
            || if cx.terms.rests_as_number() {
                rest.is_busy(cx.now, cx.terms)
            } else {
                rest.comes_again(cx.now, cx.terms.time_of(waiters))
            };
        often && cx.terms.counts() && cx.daemon_alive && cx.is_trusted()
    }

    /// Whether takes at rest go on, instead of a counter.
    pub(super) fn rests_on(&self, count: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        let missing = cx.terms.missing(rest.until.saturating_sub(cx.now)).saturating_add(count);
        !(rest.is_busy(cx.now, cx.terms) && cx.daemon_alive && missing >= COUNT_FROM)
    }

    /// Learns from the reply to a take at rest of `count` tokens, which got `granted`. Returns until when the bucket has a
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
            Reply::AtRest { full_at, .. }
                if cx.terms.has_outlived(count, full_at, cx.redis.earliest(sent)) =>
            {
                self.forget();
            }
            Reply::AtRest { full_at, was_full } => {
                let mut rests_until = cx.redis.local(full_at);
                self.estimate = Estimate::at_rest(granted, full_at, cx);
                let before = full_at.saturating_sub(cx.terms.time_at_rest(count));
                if granted == 0 {
                    let tokens = cx.still_missing(count, full_at);
                    out.correction = (tokens > 0).then_some(Correction::PutBack { tokens, full_at });
                    if count > 1 {
                        // The bucket may hold some of them.
                        self.settle_next = true;
                        return None;
                    }
                    (self.estimate, rests_until) = Estimate::of_denial_at_rest(full_at, sent, cx);
                } else if was_full {
                    self.correct_late(count, first_at, cx, out);
                } else {
                    let next = full_at.saturating_add(cx.terms.time_at_rest(1));
                    if next > cx.redis.latest(cx.now).saturating_add(cx.terms.time_of(cx.terms.capacity)) {
                        // This take got the last token.
                        (self.estimate, rests_until) = Estimate::of_denial_at_rest(next, sent, cx);
                    }
                    let is_urgent = before <= cx.redis.latest(cx.now).saturating_add(URGENT);
                    out.correction = Some(Correction::Extend { tokens: count, full_at, is_urgent });
                }
                return Some(rests_until);
            }
            // The command moved the full instant by token times of other terms. No worker got tokens.
            Reply::OtherTerms => self.forget(),
            _ => {
                // The bucket counts, or it had no key, and the command left a stray number that a settle removes.
                self.forget();
                self.must_settle = !matches!(reply, Reply::NotCounting);
            }
        }
        None
    }

    /// A correction came too late, and met another bucket or none: the key with the takes may be gone.
    pub(super) fn not_corrected(&mut self, in_doubt: InDoubt, cx: &Context<'_>, out: &mut Actions<W>) {
        self.must_settle = true;
        self.doubt(in_doubt, cx);
        self.dispatch(cx, out);
    }

    /// Corrects a first take that may have run after the instant it named. Its bucket would be full too early, by `count`
    /// tokens at most. The correction is by whole tokens, so that a counter in its place ignores it.
    pub(super) fn correct_late(&mut self, count: u64, first_at: u64, cx: &Context<'_>, out: &mut Actions<W>) {
        let (late, token) = (cx.redis.latest(cx.now).saturating_sub(first_at), cx.terms.token_time());
        if late > early_at_rest(cx.terms.pace) {
            let by = late.div_ceil(token).min(count);
            let full_at = first_at + cx.terms.time_at_rest(count + by);
            out.correction = Some(Correction::Later { tokens: count, first_at, by, full_at });
        }
    }
}
