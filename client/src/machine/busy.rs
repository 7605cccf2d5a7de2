//! A bucket in use: its waiters, its command in flight, and the tokens in hand.

use topup_wire::scripts::InDoubt;

use super::{
    Actions, Answer, Context, Micros, PutBack,
    denial::Denial,
    estimate::Estimate,
    hot::Spent,
    prefetch::Prefetch,
    queue::{WaitQueue, Waiter, Waiting},
    reserved::{AGAIN, Reservations},
};
use crate::decision::Decision;

/// The state of a bucket in use.
#[derive(Debug)]
pub(super) struct Busy<W> {
    pub(super) estimate: Estimate,
    pub(super) queue: WaitQueue<W>,
    pub(super) in_flight: Option<InFlight>,
    /// Made at its first use.
    pub(super) prefetch: Option<Box<Prefetch>>,
    /// Made when a waiter with patience is served, or loses its turn.
    pub(super) reservations: Option<Box<Reservations>>,
    /// Until when the bucket is below full, by the estimate at the first of the tokens in hand and the own takes since. `H`
    /// in docs/design/exactness.md.
    pub(super) by_own_takes: Micros,
    /// Tokens that the bucket may not miss.
    pub(super) in_doubt: InDoubt,
    /// The number of the last command.
    number: u32,
    /// Waiters that have not been checked yet for whether their turn comes in time.
    pub(super) unjudged: u32,
    /// The next command is a settle, whatever the estimate says.
    pub(super) settle_next: bool,
    /// A bare command left less than 0 tokens. A settle must follow, even without waiters.
    pub(super) must_settle: bool,
    /// The next command prefetches.
    pub(super) prefetches: bool,
    /// The first waiter came in its turn, and others had taken its tokens.
    pub(super) lost_its_turn: bool,
    /// The last command had no reply. Commands without waiters are left for later.
    pub(super) failed: bool,
}

/// A command in flight: dispatched, and perhaps written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight {
    pub(super) number: u32,
    /// When it was dispatched; once it is written, when that was.
    pub(super) since: Micros,
    /// Once it is written: the number of waiters that it is for, the first ones.
    pub(super) waiters: usize,
    pub(super) written: bool,
    /// Tokens that it prefetches.
    pub(super) ahead: u64,
}

// === impl Busy ===

impl<W> Default for Busy<W> {
    fn default() -> Self {
        Self {
            estimate: Estimate::default(),
            queue: WaitQueue::default(),
            in_flight: None,
            prefetch: None,
            reservations: None,
            by_own_takes: 0,
            in_doubt: InDoubt::default(),
            number: 0,
            unjudged: 0,
            settle_next: false,
            must_settle: false,
            prefetches: false,
            lost_its_turn: false,
            failed: false,
        }
    }
}

impl<W: Waiter> Busy<W> {
    /// Pending demand: tokens for the present waiters and for prefetches in flight.
    pub(super) fn pending(&self) -> u64 {
        let ahead = self.in_flight.map_or(0, |in_flight| in_flight.ahead);
        self.queue.demand().saturating_sub(self.reserved()).saturating_add(ahead)
    }

    /// Tokens in hand, good or not.
    pub(super) fn in_hand(&self, cx: &Context<'_>) -> u64 {
        self.reserved().saturating_add(cx.hot.prefetched())
    }

    /// Prefetched tokens that were spent since the last prefetch.
    pub(super) fn spent(&self, cx: &Context<'_>) -> u64 {
        self.prefetch.as_ref().map_or(0, |prefetch| prefetch.spent_since(cx.hot.prefetched()))
    }

    pub(super) fn take(
        &mut self,
        waiter: W,
        count: u64,
        until: Micros,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) {
        let until = if cx.enforced { until } else { cx.now };
        if self.in_flight.is_none() {
            self.renew_or_return(cx, out);
        }
        if self.queue.is_empty()
            && !cx.is_paused()
            && let Spent::Tokens(decision, low) = cx.hot.spend_tokens(count, cx.now, cx.epoch)
        {
            out.answer(waiter, Answer::Decided(decision));
            self.prefetches |= low;
            return self.dispatch(cx, out);
        }
        // A waiter that left may have reserved them.
        let reserved_for_it =
            if until > cx.now { self.reserved().saturating_sub(self.queue.demand()) } else { 0 };
        let denial = cx.or_paused(match count.saturating_sub(reserved_for_it) {
            0 => None,
            missing => self.denial(missing, self.pending(), cx),
        });
        if let Some(denial) = denial.filter(|denial| cx.now.saturating_add(denial.wait) > until) {
            return out.answer(waiter, denied(denial));
        }
        let waiting = Waiting { waiter, count, since: cx.now, until };
        self.unjudged += u32::from(denial.is_none() && !waiting.is_take());
        self.queue.push(waiting);
        self.go_on(cx, out);
    }

    /// Denies waiters, dispatches a command for them, or leaves them for later.
    pub(super) fn go_on(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.in_flight.is_some() {
            return;
        }
        self.queue.remove_departed();
        self.dismiss(cx, out);
        self.hold(cx, out);
        self.deny(cx, out);
        self.renew_or_return(cx, out);
        self.settle_reserved(cx, out);
        self.dispatch(cx, out);
    }

    /// Dispatches a command, unless one is in flight or none is needed yet.
    pub(super) fn dispatch(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.in_flight.is_some() {
            return;
        }
        self.prefetches &= !cx.is_paused() && self.reserved() == 0;
        let needs_command = |first: &Waiting<W>| first.is_take() || self.wait_of(first, cx).is_none();
        let must_settle = (self.must_settle || self.is_in_doubt()) && !self.failed;
        let is_wanted = self.prefetches || self.queue.first().is_some_and(needs_command);
        if must_settle || is_wanted && !cx.is_paused() {
            self.number = self.number.wrapping_add(1);
            let take = self.queue.first().filter(|first| first.is_take());
            let since = take.map_or(cx.now, |take| take.since);
            self.in_flight = Some(InFlight { number: self.number, since, ..InFlight::default() });
            out.dispatch = Some(self.number);
        }
    }

    /// µs until a command for the first waiter makes sense; `None` if it does now.
    pub(super) fn wait_of(&self, first: &Waiting<W>, cx: &Context<'_>) -> Option<Micros> {
        // The first waiter gets the reserved tokens, once they are good and the worker trusts its terms.
        if let Some(wait) = self.reserved_in(cx) {
            return Some(wait.max(AGAIN));
        }
        let wait = self.estimate.denial(first.count, 0, cx)?.wait;
        let reserves_in = self.reserves_at(first, cx).map_or(wait, |at| at.saturating_sub(cx.now));
        Some(wait.min(reserves_in)).filter(|wait| *wait > 0)
    }

    /// Whether no later step needs this state.
    pub(super) fn is_idle(&self, cx: &Context<'_>) -> bool {
        self.queue.is_empty()
            && self.in_flight.is_none()
            && !self.is_in_doubt()
            && !self.must_settle
            && !self.prefetches
            && self.in_hand(cx) == 0
            && (cx.terms.lease.is_none() || self.prefetch.is_none())
            && !self.estimate.is_of_use(cx.now)
    }

    /// Puts all prefetched tokens back, beside `more` of the caller. The put-back names the full instant, even without
    /// prefetched tokens.
    pub(super) fn return_prefetched(&mut self, more: u64, cx: &Context<'_>, out: &mut Actions<W>) {
        let held = self.take_prefetched(cx);
        let full_at = self.full_at(held, held.saturating_add(more), cx);
        out.put_back(match full_at {
            _ if cx.terms.hardly_fills_in(0) => PutBack { tokens: held, full_at, ..PutBack::default() },
            Some(_) => PutBack { spare: held, full_at, ..PutBack::default() },
            None => PutBack { full_at: self.full_at(0, more, cx), ..PutBack::default() },
        });
        self.forget();
    }

    /// Puts back `tokens` that no caller got, and that were granted after `since`. They are lost if `full_at` is unknown,
    /// unless the limit is slow.
    pub(super) fn put_back(
        &mut self,
        tokens: u64,
        full_at: Option<u64>,
        since: Micros,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) {
        let slow = cx.terms.hardly_fills_in(cx.now.saturating_sub(since));
        if tokens > 0 && (slow || full_at.is_some()) {
            let (tokens, spare) = if slow { (tokens, 0) } else { (0, tokens) };
            out.put_back(PutBack { tokens, since: cx.redis.earliest(since), spare, full_at });
            self.forget();
        }
    }

    /// Until when the bucket is certainly below full with `held` tokens in hand.
    pub(super) fn below_full_until(&self, held: u64, cx: &Context<'_>) -> Micros {
        let until = self.estimate.below_full_until().min(self.by_own_takes);
        until.saturating_sub(cx.terms.time_of(held).saturating_add(2))
    }

    /// Notes tokens in doubt. The next settle is told.
    pub(super) fn doubt(&mut self, more: InDoubt, cx: &Context<'_>) {
        self.in_doubt = self.in_doubt.with(more, cx.terms.pace);
    }

    /// Whether the bucket may not miss tokens that this worker has taken.
    pub(super) const fn is_in_doubt(&self) -> bool {
        self.in_doubt.tokens > 0
    }

    /// Forgets the estimate.
    pub(super) fn forget(&mut self) {
        self.estimate = Estimate::default();
        self.settle_next = true;
    }

    /// When the bucket is full, for a put-back of `tokens` in one step. No caller got `held` of them: with these, the bucket
    /// has to be below full.
    pub(super) fn full_at(&self, held: u64, tokens: u64, cx: &Context<'_>) -> Option<u64> {
        // A put-back in one step would make the bucket full before prefetched tokens expect it.
        let is_uncertain = self.is_in_doubt() || self.in_flight.is_some() || self.in_hand(cx) > 0;
        let has_filled = held > 0 && self.below_full_until(held, cx) <= cx.now;
        if is_uncertain || has_filled { None } else { self.estimate.full_in_redis(tokens, cx.terms) }
    }
}

/// The answer to a denied waiter.
pub(super) fn denied(denial: Denial) -> Answer {
    Answer::Decided(Decision::from(denial))
}
