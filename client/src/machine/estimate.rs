//! The estimate: a worker's knowledge of a bucket. With it, a take needs one command, and a denial none.
//!
//! docs/design/exactness.md proves that a bare `DECR` is exact.

use topup_wire::{
    constants::HOLD,
    reply::{Settled, Verdict},
};

use super::{
    Command, Context, Kind, Micros, Terms, cautious,
    denial::{Denial, Denied},
};

/// Redis decides again after this long a denial, in µs, since another worker may have put tokens back.
const DENIAL_TRUST: Micros = 1_000_000;
/// The estimate of a counting bucket is good for this long after the sending of its last answered command, in µs. A
/// put-back keeps a bucket at rest for longer (`HOLD` in topup-wire). No worker therefore confuses two counting forms.
const FRESH: Micros = 1_000_000;
/// The full instant is sent to Redis only if tokens are at least this far apart, in µs: closer ones hide in rounding.
const APART: Micros = 10;
/// A bucket at rest has a key for this long after it is full, in µs, or longer. Redis rounds an expiry up to a ms, and removes
/// the key when that ms is over.
const KEPT: Micros = 1_000;

/// The estimate of one bucket. Instants are by the worker's clock unless a comment says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    /// The publication under which it was learned.
    epoch: u64,
    /// When the settle with this reply was sent.
    settled_at: Micros,
    /// The bucket is certainly below full until then. 0 if unknown.
    below_full_until: Micros,
    /// End of [`FRESH`]. 0 if the bucket was not counting at the last reply.
    fresh_until: Micros,
    /// Earliest end of the denial.
    denied_until: Micros,
    /// Latest end of the denial.
    promised_at: Micros,
    /// The smallest count that was denied.
    denied_count: u64,
    /// When the bucket is full, in µs of Redis `TIME`, if only this worker takes. 0 if unknown.
    full_in_redis: u64,
    /// Tokens taken by this worker since the last take of another one. To put back more would move the full instant before
    /// the one that others may know.
    taken_alone: u64,
    /// Tokens at the last reply.
    tokens: u64,
    /// Capacity at the last reply.
    capacity: u64,
}

// === impl Estimate ===

impl Estimate {
    /// The estimate by the reply to a settle, which was sent at `sent` for takes of `count` tokens each.
    pub(super) fn of_settle(settled: &Settled, count: u64, sent: Micros, cx: &Context<'_>) -> Self {
        let &Settled { tokens, capacity, headroom, now, granted, counting, .. } = settled;
        let mut estimate = Self { epoch: cx.epoch, settled_at: sent, tokens, capacity, ..Self::default() };
        // Only a worker that took has moved the full instant. By that it can tell another worker's put-back from no change.
        if granted > 0 {
            estimate.below_full_until = sent.saturating_add(cautious(headroom));
            estimate.fresh_until = if counting { sent + FRESH } else { 0 };
            if now > 0 && cx.terms.pace.n > 0 {
                estimate.full_in_redis = now.saturating_add(headroom);
                estimate.taken_alone = granted;
            }
        }
        // Without trust, the reply is long and tells the wait. Its terms may be later ones than the worker knows.
        let is_short = tokens == 0 && cx.is_trusted();
        let wait = settled.wait.max(if is_short { cx.terms.time_to_one(headroom, capacity) } else { 0 });
        if wait > 0 && settled.verdict != Verdict::Unknown {
            estimate.denied_until = sent.saturating_add(wait.min(DENIAL_TRUST));
            estimate.denied_count = if settled.verdict == Verdict::Denied { count } else { 1 };
            let certain = if counting { wait } else { wait.saturating_add(cx.unsure_at_rest(wait)) };
            let longest = cx.terms.time_of(estimate.denied_count).max(wait);
            estimate.promised_at = cx.now.saturating_add(certain.min(longest));
        }
        estimate
    }

    /// The estimate by the reply to a take at rest that got `granted` tokens. The bucket is full at `full_at` after it.
    pub(super) fn at_rest(granted: u64, full_at: u64, cx: &Context<'_>) -> Self {
        let below_full_for = full_at.saturating_sub(cx.redis.latest(cx.now));
        Self {
            epoch: cx.epoch,
            below_full_until: cx.now.saturating_add(cautious(below_full_for)),
            full_in_redis: full_at,
            taken_alone: granted,
            ..Self::default()
        }
    }

    /// The estimate by the reply to a take at rest that found no token, and until when takes at rest count on a key. `full_at`
    /// is the full instant in the reply, and the command was sent at `sent`.
    pub(super) fn of_denial_at_rest(full_at: u64, sent: Micros, cx: &Context<'_>) -> (Self, Micros) {
        let (capacity, token) = (cx.terms.capacity, cx.terms.time_at_rest(1).max(1));
        let token_at = full_at.saturating_sub(cx.terms.time_of(capacity));
        let (earliest, latest) = (cx.redis.earliest(cx.now), cx.redis.latest(cx.now));
        // Tokens that other workers are about to put back make it seem later by whole tokens.
        let least = token_at.saturating_sub(latest).saturating_sub(1) % token + 1;
        // The bounds say nothing after a lost connection.
        let width = cx.redis.width().min(token);
        let most = least.saturating_add(width).min(token_at.saturating_sub(earliest).max(1));
        let certain = most.saturating_add(cx.drift_in(most));
        // The token comes at once or in a whole token time, if the bounds of Redis `TIME` allow both.
        let least = if most > token { 0 } else { least };
        let estimate = Self {
            epoch: cx.epoch,
            settled_at: sent,
            denied_until: cx.now.saturating_add(least.min(DENIAL_TRUST)),
            promised_at: cx.now.saturating_add(certain.min(token)),
            denied_count: 1,
            capacity,
            ..Self::default()
        };
        let rest = cx.terms.time_of(capacity.saturating_sub(1));
        (estimate, cx.now.saturating_add(certain).saturating_add(rest))
    }

    /// Learns from a bare command that was sent at `sent`, took `granted` tokens and left `left`.
    pub(super) fn taken(&mut self, granted: u64, left: u64, sent: Micros, terms: &Terms) {
        if sent < self.settled_at {
            return;
        }
        let time = terms.time_of(granted);
        if terms.pace.n > 0 {
            self.below_full_until = self.below_full_until.saturating_add(cautious(time));
        }
        if self.full_in_redis > 0 {
            self.full_in_redis = self.full_in_redis.saturating_add(time);
            self.taken_alone = self.taken_alone.saturating_add(granted);
        }
        self.tokens = left;
        self.fresh_until = self.fresh_until.max(sent + FRESH);
    }

    /// Whether a bare command for `count` tokens is exact now, and its reply likely to come in time: a late one would leave tokens
    /// in doubt.
    pub(super) fn may_decrement(&self, count: u64, cx: &Context<'_>) -> bool {
        cx.terms.counts()
            && cx.daemon_alive
            && cx.is_trusted()
            && self.epoch == cx.epoch
            && self.tokens >= count
            && cx.now < self.fresh_until
            && cx.now.saturating_add(cx.round_trip) < self.below_full_until
    }

    /// Whether the bucket was counting at the last reply.
    pub(super) const fn was_counting(&self) -> bool {
        self.fresh_until > 0
    }

    /// Until when a bare command is certain to find the bucket counting and below full.
    pub(super) fn certain_until(&self) -> Micros {
        self.below_full_until.min(self.fresh_until)
    }

    /// A bare command for `by` tokens. Another counting form begins after [`HOLD`] only.
    pub(super) const fn decrement(&self, by: u64) -> Command {
        let counting_until = self.fresh_until + (HOLD - FRESH);
        Command::Decrement { by, below_full_until: self.below_full_until, counting_until }
    }

    /// Whether the bucket was counting at the last reply, and may still count.
    pub(super) fn may_be_counting(&self, cx: &Context<'_>) -> bool {
        self.epoch == cx.epoch && self.was_counting() && cx.now < self.below_full_until.saturating_add(FRESH)
    }

    /// Tokens at the last reply, if the bucket was counting and may still count.
    pub(super) fn tokens_if_counting(&self, cx: &Context<'_>) -> u64 {
        if self.may_be_counting(cx) { self.tokens } else { 0 }
    }

    /// The denial that the reply to a settle tells, which this estimate is of.
    pub(super) fn denial_of(&self, settled: &Settled, now: Micros) -> Denial {
        Denial { wait: settled.wait.max(self.promised_at.saturating_sub(now)), ..settled.into() }
    }

    /// Until when the bucket is certainly below full; 0 if that is unknown.
    pub(super) const fn below_full_until(&self) -> Micros {
        self.below_full_until
    }

    /// When the bucket is full, if no worker takes any more; 0 if that is unknown.
    pub(super) fn full_at(&self, cx: &Context<'_>) -> Micros {
        if self.epoch != cx.epoch || self.capacity == 0 {
            return 0;
        }
        let missing = cx.terms.time_of(self.capacity.saturating_sub(self.tokens));
        self.below_full_until.max(self.settled_at.saturating_add(missing))
    }

    /// The denial of a take of `count` tokens behind a `pending` demand, if there is one.
    pub(super) fn denial(&self, count: u64, pending: u64, cx: &Context<'_>) -> Option<Denial> {
        let (until, denial) = self.known_denial(count, pending, cx)?;
        (cx.now < until).then_some(denial)
    }

    /// The last known denial of a take of `count` tokens, though its time may be over.
    pub(super) fn last_denial(&self, count: u64, cx: &Context<'_>) -> Option<Denial> {
        Some(self.known_denial(count, 0, cx)?.1)
    }

    /// The denial of a take of `count` tokens, with its earliest end.
    fn known_denial(&self, count: u64, pending: u64, cx: &Context<'_>) -> Option<(Micros, Denial)> {
        if self.denied_until == 0 || self.epoch != cx.epoch {
            return None;
        }
        if cx.is_past_change() && count.saturating_add(pending) != self.denied_count {
            return None;
        }
        let (until, promised_at) = self.denied(count, pending, cx.terms)?;
        let wait = promised_at.saturating_sub(cx.now);
        Some((until, Denial { tokens: self.tokens, capacity: self.capacity, wait }))
    }

    /// The denial of takes of one token behind a `pending` demand, for the denial cache.
    pub(super) fn denial_of_one(&self, pending: u64, terms: &Terms) -> Option<Denied> {
        if self.denied_until == 0 {
            return None;
        }
        let (until, promised_at) = self.denied(1, pending, terms)?;
        Some(Denied { epoch: self.epoch, until, promised_at, tokens: self.tokens, capacity: self.capacity })
    }

    /// Earliest and latest end of the denial of a take.
    fn denied(&self, count: u64, pending: u64, terms: &Terms) -> Option<(Micros, Micros)> {
        let all = count.saturating_add(pending);
        // A take beyond the capacity is an error, which the settle reports.
        if all < self.denied_count || count > self.capacity {
            return None;
        }
        match all - self.denied_count {
            0 => Some((self.denied_until, self.promised_at)),
            _ if !terms.foreseen => None,
            more => {
                let later = terms.time_of(more);
                let until =
                    self.denied_until.saturating_add(later).min(self.settled_at.saturating_add(DENIAL_TRUST));
                let rounded = u64::from(terms.pace.n > 1);
                Some((until, self.promised_at.saturating_add(later).saturating_add(rounded)))
            }
        }
    }

    /// Ends the denial: another take was allowed since.
    pub(super) fn end_denial(&mut self) {
        self.denied_until = 0;
    }

    /// Whether a denial is in force.
    pub(super) fn denies(&self, now: Micros) -> bool {
        self.denied_until > now
    }

    /// When the bucket is full, in µs of Redis `TIME`, for a put-back of `tokens` in one step. `None` if a take of another
    /// worker would not show, or if another worker may count on the tokens.
    pub(super) fn full_in_redis(&self, tokens: u64, terms: &Terms) -> Option<u64> {
        let shows = self.full_in_redis > 0 && terms.time_of(1) >= APART;
        (shows && tokens <= self.taken_alone).then_some(self.full_in_redis)
    }

    /// When the last command with a reply was sent, or earlier.
    pub(super) const fn heard_at(&self) -> Micros {
        self.fresh_until.saturating_sub(FRESH)
    }

    pub(super) const fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(super) fn capacity(&self, terms: &Terms) -> u64 {
        if self.capacity > 0 { self.capacity } else { terms.capacity }
    }

    /// Whether the next take would use the estimate.
    pub(super) fn is_of_use(&self, now: Micros) -> bool {
        self.denies(now) || self.was_counting() && now < self.below_full_until
    }
}

impl Terms {
    /// Until when a first take is not worth a try. The bucket is at rest, and full `headroom` µs after `sent`.
    pub(super) fn rests_until(&self, headroom: Micros, sent: Micros) -> Micros {
        let kept = if self.rests_as_number() { 0 } else { KEPT };
        sent.saturating_add(headroom).saturating_add(kept)
    }

    /// µs until an empty bucket that is full in `headroom` has a token; 0 if unknown.
    fn time_to_one(&self, headroom: Micros, capacity: u64) -> Micros {
        // Tokens may come by ticks, or at the end of a period.
        if self.kind == Kind::Counting {
            return 0;
        }
        // Late by rounding at most. A take that comes too early learns the rest.
        headroom.saturating_sub(self.time_of(capacity.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use topup_wire::bucket::Pace;

    use super::*;

    #[test]
    fn no_first_take_is_tried_while_the_key_certainly_exists() {
        let kind = Kind::TwoForms;
        let terms = |n, p| Terms {
            id: 1,
            pace: Pace { n, p },
            capacity: 10,
            kind,
            foreseen: true,
            reserves: true,
            lease: None,
            change: None,
            earlier_until: 0,
        };
        assert_eq!(terms(1_000, 1).rests_until(1, 500), 1_501, "full before the reply comes");
        assert_eq!(terms(1, 1_000).rests_until(8_000, 0), 9_000);
        assert_eq!(terms(1, 10_000).rests_until(64_000, 0), 64_000, "a number is taken from as well");
    }
}
