//! The state of one bucket in a worker, and what each event makes of it.

use topup_wire::reply::{Settled, Verdict};

use super::{
    Actions, Answer, Command, Context, Micros, PutBack, Reply,
    denial::Denial,
    estimate::Estimate,
    prefetch::Prefetch,
    queue::{WaitQueue, Waiter, Waiting},
    rest::Rest,
};
use crate::decision::Decision;

/// A waiter is looked at again after this, in µs, however far off its tokens are: a change or a put-back may end its wait.
const LOOK_AGAIN: Micros = 500_000;

/// What happens to a bucket.
#[derive(Debug)]
pub enum Event<W> {
    /// Someone wants tokens.
    Take {
        /// Who.
        waiter: W,
        /// How many.
        count: u64,
        /// How long it waits for tokens that are not there; a take waits for none, and says the present.
        until: Micros,
    },
    /// The pipeline is ready to write the command that was dispatched under this number.
    Ready(u32),
    /// A command has come to an end.
    Completed {
        /// Its number.
        number: u32,
        /// What was written.
        command: Command,
        /// When that was.
        sent: Micros,
        /// The reply; `None`: there is none, and whether it was carried out is not known.
        reply: Option<Reply>,
    },
    /// The instant that was asked for has come.
    Wake,
    /// It is time to take tokens ahead.
    TakeAhead,
    /// A correction did not reach its bucket: so many tokens are [in doubt](super::Adjust::in_doubt).
    NotAdjusted(u64),
    /// Tokens were granted to someone who has left.
    Unwanted(u64),
    /// A script beside the pipeline told this of the bucket: a reply to a take of `count` tokens.
    Heard {
        /// The reply.
        settled: Settled,
        /// Tokens asked for.
        count: u64,
        /// When it was sent.
        sent: Micros,
    },
    /// This client is about to put so many tokens into the bucket: what is in hand goes back with them, and nothing known of
    /// the bucket holds.
    PutsBack(u64),
    /// Tokens were put into the bucket: waiters may have their turn.
    Changed,
}

/// The state of one bucket in a worker.
#[derive(Debug)]
pub struct BucketState<W> {
    rest: Rest,
    /// The rest, while there is more: most buckets of a worker are at rest.
    busy: Option<Box<Busy<W>>>,
}

/// What a bucket in use has beside that.
#[derive(Debug)]
pub(super) struct Busy<W> {
    pub(super) estimate: Estimate,
    pub(super) queue: WaitQueue<W>,
    pub(super) in_flight: Option<InFlight>,
    /// Made when it is first needed.
    pub(super) prefetch: Option<Box<Prefetch>>,
    /// Tokens gathered for the first waiter.
    pub(super) gathered: u64,
    /// Tokens taken by bare commands that may have run on a full bucket.
    pub(super) doubt: u64,
    /// Commands so far.
    number: u32,
    /// Waiters that have not been told yet whether their turn comes in time.
    pub(super) unsure: u32,
    /// The next command is a settle, whatever the estimate says.
    pub(super) settle_next: bool,
    /// A bare command found less than nothing: a settle must follow, also where nobody waits.
    pub(super) must_settle: bool,
    /// More is to be taken ahead.
    pub(super) wants_more: bool,
    /// Gathered tokens had to be put back: from now on all or nothing.
    pub(super) gathers_in_vain: bool,
    /// The last command had no reply: what nobody waits for is left for later.
    pub(super) failed: bool,
}

/// A command on its way, or about to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) number: u32,
    /// When it was dispatched, and then when it was written.
    pub(super) since: Micros,
    /// Once it is written: how many of the first waiters it is for.
    pub(super) waiters: usize,
    pub(super) written: bool,
    /// Tokens to be taken ahead.
    pub(super) ahead: u64,
    /// A bare command that ends later is in doubt.
    pub(super) certain_until: Micros,
}

// === impl BucketState ===

impl<W> Default for BucketState<W> {
    fn default() -> Self {
        Self { rest: Rest::default(), busy: None }
    }
}

impl<W: Waiter> BucketState<W> {
    /// What comes of `event`.
    pub fn step(&mut self, event: Event<W>, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.busy.is_none() && matches!(event, Event::Wake | Event::Changed | Event::PutsBack(_)) {
            return;
        }
        let busy = self.busy.get_or_insert_default();
        match event {
            Event::Take { waiter, count, until } => {
                self.rest.ask(cx.now);
                busy.take(waiter, count, until, cx, out);
            }
            Event::Ready(number) => out.command = busy.write(number, &self.rest, cx, out),
            Event::Completed { number, command, sent, reply } => {
                if let Some(until) = busy.complete(number, command, sent, reply, cx, out) {
                    self.rest.until = until;
                }
            }
            Event::NotAdjusted(tokens) => busy.not_adjusted(tokens, cx, out),
            Event::Wake => busy.wake(cx, out),
            Event::TakeAhead => {
                busy.wants_more = true;
                busy.dispatch(cx, out);
            }
            Event::Unwanted(tokens) => {
                // When they were taken is not known here: nobody else may have them, and none may stay in hand.
                out.put_back(PutBack { tokens, full_at: busy.full_at(tokens, cx), or_lost: false });
                busy.forget();
                busy.go_on(cx, out);
            }
            Event::Heard { settled, count, sent } => {
                if settled.verdict == Verdict::Denied && busy.in_flight.is_none() {
                    busy.estimate = Estimate::of_settle(&settled, count, sent, cx);
                }
            }
            Event::PutsBack(more) => busy.return_stock(more, cx, out),
            Event::Changed => {
                busy.forget();
                busy.go_on(cx, out);
            }
        }
        out.wake_at = busy.wake_at(cx);
        let pending = busy.pending();
        cx.hot.set_denial(busy.estimate.denial_of_one(pending, cx.terms));
        if busy.is_idle(cx) {
            self.busy = None;
        }
    }

    /// Bytes that a bucket in use takes beside its state at rest.
    #[cfg(test)]
    pub(crate) fn size_of_use() -> usize {
        size_of::<Busy<W>>()
    }

    /// Whether anyone waits for tokens with patience.
    pub fn has_waiters(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.queue.has_waiters())
    }

    /// Whether a command is in flight.
    pub fn is_in_flight(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_flight.is_some())
    }

    /// The denial of a take of `count` tokens that was known last, if any.
    pub fn last_denial(&self, count: u64, cx: &Context<'_>) -> Option<Denial> {
        self.busy.as_ref()?.estimate.last_denial(count, cx)
    }

    /// The denial of a take of `count` tokens, if it is known.
    pub fn denial(&self, count: u64, cx: &Context<'_>) -> Option<Denial> {
        self.busy.as_ref()?.estimate.denial(count, 0, cx)
    }
}

// === impl Busy ===

impl<W> Default for Busy<W> {
    fn default() -> Self {
        Self {
            estimate: Estimate::default(),
            queue: WaitQueue::default(),
            in_flight: None,
            prefetch: None,
            gathered: 0,
            doubt: 0,
            number: 0,
            unsure: 0,
            settle_next: false,
            must_settle: false,
            wants_more: false,
            gathers_in_vain: false,
            failed: false,
        }
    }
}

impl<W: Waiter> Busy<W> {
    /// Tokens that waiters and commands before a newcomer have claim to.
    fn pending(&self) -> u64 {
        let ahead = self.in_flight.map_or(0, |flight| flight.ahead);
        self.queue.demand().saturating_sub(self.gathered).saturating_add(ahead)
    }

    fn take(&mut self, waiter: W, count: u64, until: Micros, cx: &Context<'_>, out: &mut Actions<W>) {
        let until = if cx.enforced { until } else { cx.now };
        if self.in_flight.is_none() && cx.hot.is_over(cx.now, cx.epoch) {
            self.renew_or_return(cx, out);
        }
        if self.queue.is_empty() && cx.hot.good(cx.now, cx.epoch) > 0 {
            if count > 1 {
                // What is in hand may be what is missing.
                self.gathered += cx.hot.empty();
            } else if let Some(decision) = cx.hot.spend_token(cx.now, cx.epoch) {
                return out.answer(waiter, Answer::Decided(decision));
            }
        }
        let denial = match count.saturating_sub(self.gathered) {
            0 => None,
            missing => self.estimate.denial(missing, self.pending(), cx),
        };
        if let Some(denial) = denial.filter(|denial| cx.now.saturating_add(denial.wait) > until) {
            out.answer(waiter, denied(denial));
            return self.settle_gathered(cx, out);
        }
        let waiting = Waiting { waiter, count, since: cx.now, until };
        self.unsure += u32::from(denial.is_none() && !waiting.is_take());
        self.queue.push(waiting);
        self.go_on(cx, out);
    }

    /// Goes on for those who wait: denies them, asks for them, or leaves them for later.
    pub(super) fn go_on(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.in_flight.is_some() {
            return;
        }
        self.queue.close_up();
        self.dismiss(cx, out);
        self.deny(cx, out);
        self.settle_gathered(cx, out);
        if cx.hot.is_over(cx.now, cx.epoch) {
            self.renew_or_return(cx, out);
        }
        self.dispatch(cx, out);
    }

    /// Has a command written, unless one is in flight or there is nothing to ask for yet.
    pub(super) fn dispatch(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.in_flight.is_some() {
            return;
        }
        let asks = |first: &Waiting<W>| first.is_take() || self.wait_of(first, cx).is_none();
        let owes = (self.must_settle || self.doubt > 0) && !self.failed;
        if owes || self.wants_more || self.queue.first().is_some_and(asks) {
            self.number = self.number.wrapping_add(1);
            let number = self.number;
            let since =
                self.queue.first().filter(|first| first.is_take()).map_or(cx.now, |first| first.since);
            self.in_flight =
                Some(InFlight { number, since, waiters: 0, written: false, ahead: 0, certain_until: 0 });
            out.dispatch = Some(number);
        }
    }

    /// How long the first waiter waits until there is something to ask for; `None`: it is time to ask.
    fn wait_of(&self, first: &Waiting<W>, cx: &Context<'_>) -> Option<Micros> {
        let count = if self.gathers(first.count, cx) { 1 } else { first.count };
        self.estimate.denial(count, 0, cx).map(|denial| denial.wait)
    }

    fn wake(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        self.expire(cx, out);
        self.go_on(cx, out);
    }

    /// Gives up what has taken too long.
    fn expire(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        let overdue = |since: Micros| since.saturating_add(cx.deadline) <= cx.now;
        // One that is still to be written waits for room, and is built for whoever is there then.
        if let Some(flight) = self.in_flight.filter(|flight| flight.written && overdue(flight.since)) {
            self.in_flight = None;
            for _ in 0..flight.waiters {
                if let Some(waiting) = self.queue.pop() {
                    out.answer(waiting.waiter, Answer::Overdue);
                }
            }
            // It may still be carried out, and then there is less than is known.
            self.estimate = Estimate::default();
            self.settle_next = true;
        }
        self.expire_takes(cx.now, cx, out);
    }

    /// Tells takes that are overdue at `now`.
    pub(super) fn expire_takes(&mut self, now: Micros, cx: &Context<'_>, out: &mut Actions<W>) {
        let overdue = |since: Micros| since.saturating_add(cx.deadline) <= now;
        if !self.queue.oldest_take().is_some_and(overdue) {
            return;
        }
        let (waiters, mut turn, mut gone_of_flight) =
            (self.in_flight.map_or(0, |flight| flight.waiters), 0, 0);
        let gone = self.queue.extract(|waiting| {
            let gone = waiting.is_take() && overdue(waiting.since);
            gone_of_flight += usize::from(gone && turn < waiters);
            turn += 1;
            gone
        });
        if let Some(flight) = &mut self.in_flight {
            flight.waiters -= gone_of_flight;
        }
        gone.into_iter().for_each(|waiting| out.answer(waiting.waiter, Answer::Overdue));
    }

    /// When to look again.
    fn wake_at(&self, cx: &Context<'_>) -> Option<Micros> {
        let deadline = |since: Micros| since.saturating_add(cx.deadline);
        let take = self.queue.oldest_take().map(deadline);
        let flight = self.in_flight.filter(|flight| flight.written).map(|flight| deadline(flight.since));
        let first = self.queue.first().filter(|first| self.in_flight.is_none() && !first.is_take());
        let turn = first.map(|first| {
            let wait = self.wait_of(first, cx).unwrap_or(0);
            cx.now.saturating_add(wait.clamp(1, LOOK_AGAIN))
        });
        let stock = (cx.hot.in_hand() > 0).then(|| cx.hot.good_until());
        [take, flight, turn, stock].into_iter().flatten().min()
    }

    /// Whether nothing is left that a later step would need.
    fn is_idle(&self, cx: &Context<'_>) -> bool {
        self.queue.is_empty()
            && self.in_flight.is_none()
            && self.doubt == 0
            && !self.must_settle
            && !self.wants_more
            && self.gathered == 0
            && cx.hot.in_hand() == 0
            && cx.terms.lease.is_none()
            && !self.estimate.is_of_use(cx.now)
    }

    /// Puts all tokens in hand back, and so many more that somebody else brings. Tells the full instant, also where none are
    /// in hand.
    pub(super) fn return_stock(&mut self, more: u64, cx: &Context<'_>, out: &mut Actions<W>) {
        let tokens = cx.hot.empty() + std::mem::take(&mut self.gathered);
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.gone(tokens);
        }
        out.put_back(PutBack {
            tokens,
            full_at: self.full_at(tokens.saturating_add(more), cx),
            or_lost: cx.terms.lease.is_some(),
        });
        self.forget();
    }

    /// Forgets what is known of the bucket.
    pub(super) fn forget(&mut self) {
        self.estimate = Estimate::default();
        self.settle_next = true;
    }

    /// When the bucket is full, as a put-back of `tokens` tells it.
    pub(super) fn full_at(&self, tokens: u64, cx: &Context<'_>) -> Option<u64> {
        // A put-back in place would make the bucket full before tokens in hand expect it.
        let unsure = self.doubt > 0 || self.in_flight.is_some() || cx.hot.in_hand() > 0;
        if unsure { None } else { self.estimate.full_in_redis(tokens, cx.terms) }
    }
}

/// A denial as an answer.
pub(super) fn denied(denial: Denial) -> Answer {
    Answer::Decided(Decision::from(denial))
}
