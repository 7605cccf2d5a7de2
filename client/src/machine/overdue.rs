//! Deadlines of takes and commands, and the next wake-up of a bucket.

use super::{Actions, Answer, Context, Micros, busy::Busy, pause, queue::Waiter};

/// A waiter is checked again after this, in µs, however far its tokens are: a change or a put-back may end its wait.
const LOOK_AGAIN: Micros = 500_000;

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Ends the command and the takes whose deadline has passed.
    pub(super) fn expire(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        // A command that is not written yet is built later, for the waiters of that time.
        let written = self.in_flight.filter(|in_flight| in_flight.written);
        if let Some(overdue) = written.filter(|written| cx.is_overdue(written.since, cx.now)) {
            self.in_flight = None;
            // It may still be carried out. The bucket then holds less than the estimate says.
            self.forget();
            self.answer_first(overdue.waiters, Answer::Overdue, out);
        }
        self.expire_takes(cx.now, cx, out);
    }

    /// Answers takes that are overdue at `now`.
    pub(super) fn expire_takes(&mut self, now: Micros, cx: &Context<'_>, out: &mut Actions<W>) {
        if !self.queue.oldest_take().is_some_and(|since| cx.is_overdue(since, now)) {
            return;
        }
        let waiters = self.in_flight.map_or(0, |in_flight| in_flight.waiters);
        let (mut turn, mut gone_in_flight) = (0, 0);
        let gone = self.queue.extract(|waiting| {
            let gone = waiting.is_take() && cx.is_overdue(waiting.since, now);
            gone_in_flight += usize::from(gone && turn < waiters);
            turn += 1;
            gone
        });
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.waiters -= gone_in_flight;
        }
        out.answer_all(gone, Answer::Overdue);
    }

    /// Answers the first `waiters`.
    pub(super) fn answer_first(&mut self, waiters: usize, answer: Answer, out: &mut Actions<W>) {
        for _ in 0..waiters {
            if let Some(waiting) = self.queue.pop() {
                out.answer(waiting.waiter, answer);
            }
        }
    }

    /// The instant of the next wake-up.
    pub(super) fn wake_at(&self, cx: &Context<'_>) -> Option<Micros> {
        let deadline = |since: Micros| since.saturating_add(cx.deadline);
        let take = self.queue.oldest_take().map(deadline);
        let written = self.in_flight.filter(|in_flight| in_flight.written);
        let command = written.map(|written| deadline(written.since));
        let first = self.queue.first().filter(|first| self.in_flight.is_none() && !first.is_take());
        let turn = first.map(|first| {
            // Where it cannot reserve, it yields in its turn. A test's clock may stand still in that turn.
            let asks_late = !cx.terms.reserves && cx.redis.width() > 0;
            let yields = if asks_late { self.yields(first, cx) } else { 0 };
            let wait = self.wait_of(first, cx).map_or(0, |wait| wait.saturating_add(yields));
            let paused = cx.paused_until.saturating_sub(cx.now).min(pause::LOOK_AGAIN);
            cx.now.saturating_add(wait.max(paused).clamp(1, LOOK_AGAIN))
        });
        let prefetched = (cx.hot.prefetched() > 0).then(|| cx.hot.good_until());
        [take, command, turn, prefetched, self.reserved_wake_at(cx)].into_iter().flatten().min()
    }
}

impl Context<'_> {
    /// Whether a take or a command of the instant `since` is overdue at `now`.
    fn is_overdue(&self, since: Micros, now: Micros) -> bool {
        since.saturating_add(self.deadline) <= now
    }
}
