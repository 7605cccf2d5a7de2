//! The completion of a command: its reply serves and denies waiters, and updates the estimate.

use topup_wire::{
    bucket::{Operation, Reservation},
    scripts::InDoubt,
};

use super::{
    Actions, Answer, Command, Context, Micros, Reply,
    busy::{Busy, InFlight, denied},
    cautious,
    denial::Denial,
    estimate::Estimate,
    queue::Waiter,
    rest::tokens_at_rest,
};

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Processes the reply to a command. Returns until when the bucket has a key, if the reply says so.
    pub(super) fn complete(
        &mut self,
        number: u32,
        command: Command,
        sent: Micros,
        reply: Option<Reply>,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> Option<Micros> {
        let in_flight = self.in_flight.filter(|in_flight| in_flight.number == number);
        if in_flight.is_some() {
            self.in_flight = None;
        }
        self.failed = reply.is_none();
        let Some(reply) = reply else {
            self.fail(in_flight, command, cx, out);
            self.go_on(cx, out);
            return None;
        };
        let granted = command.granted(&reply, sent, cx);
        self.note_doubt(command, granted, cx);
        // Before the estimate learns: the reply says nothing of the time before it.
        self.renew_or_return(cx, out);
        let in_hand = self.in_hand(cx);
        let rests_until = self.learn(in_flight.is_some(), command, &reply, (granted, sent), cx, out);
        self.note_own_take(granted, in_hand, cx);
        let (granted, reserves) = match (command, reply) {
            (Command::Settle { operation: Operation::Reserve(reservation), .. }, Reply::Settled(settled)) => {
                // Tokens that nobody waits for any more are lost.
                let is_late = in_flight.is_none();
                (if is_late { 0 } else { self.note_reserved(reservation, &settled, sent, cx) }, true)
            }
            _ => (granted, false),
        };
        let (left, capacity) = match reply {
            Reply::Settled(settled) => (settled.tokens, settled.capacity),
            Reply::First(_) => (cx.terms.capacity.saturating_sub(granted), cx.terms.capacity),
            Reply::Left(left) | Reply::InWindow { left, .. } => {
                (u64::try_from(left).unwrap_or(0), self.estimate.capacity(cx.terms))
            }
            Reply::AtRest { full_at, .. } => (tokens_at_rest(full_at, cx), cx.terms.capacity),
            Reply::NotCounting | Reply::OtherTerms | Reply::NotAtRest => (0, cx.terms.capacity),
        };
        let served = if in_flight.is_some() {
            self.distribute(granted, left, capacity, sent, cx, out)
        } else {
            // The bucket may have been full since an overdue command was carried out.
            self.put_back(granted, None, sent, cx, out);
            0
        };
        if served == 0 && in_flight.is_some_and(|in_flight| in_flight.waiters > 0) && !reserves {
            self.note_denied(cx);
        }
        // If all tokens were granted, no waiter is denied: one without tokens goes with the next command.
        if !reserves
            && granted < command.count()
            && let (Some(in_flight), Reply::Settled(settled)) = (in_flight, &reply)
        {
            let unserved = in_flight.waiters.saturating_sub(served);
            let denial = self.estimate.denial_of(settled, cx.now);
            out.answer_all(self.queue.extract_first(unserved), denied(denial));
        }
        self.go_on(cx, out);
        rests_until
    }

    /// Notes an own take of `granted` tokens, of which the estimate knows. `in_hand` were there before.
    ///
    /// The estimate may know of takes of other workers, too, whose tokens may still be in hand there. Together with those in
    /// hand here, they would fill the bucket earlier than it says.
    fn note_own_take(&mut self, granted: u64, in_hand: u64, cx: &Context<'_>) {
        let known = self.estimate.below_full_until();
        let by_own_takes = self.by_own_takes.saturating_add(cautious(cx.terms.time_of(granted)));
        self.by_own_takes = match (in_hand, known) {
            (0, _) => known,
            (_, 0) => by_own_takes,
            _ => known.min(by_own_takes),
        };
    }

    /// Counts the tokens in doubt of a bare command that ended late. If the bucket was full on the way, it lost those that came
    /// from then on. The next settle is told.
    fn note_doubt(&mut self, command: Command, granted: u64, cx: &Context<'_>) {
        let Command::Decrement { below_full_until, counting_until, .. } = command else { return };
        let came = cx.terms.missing(cx.now.saturating_sub(below_full_until));
        let tokens = if cx.now < counting_until { came.min(granted) } else { granted };
        self.doubt(InDoubt { tokens, full_at: 0 }, cx);
    }

    /// Processes a command without a reply. It may have been carried out.
    fn fail(
        &mut self,
        in_flight: Option<InFlight>,
        command: Command,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) {
        self.forget();
        if let Command::Settle { in_doubt: Some(in_doubt), .. } = command {
            self.doubt(in_doubt, cx);
        }
        self.answer_first(in_flight.map_or(0, |in_flight| in_flight.waiters), Answer::Failed, out);
    }

    /// Updates the estimate by a reply. Returns until when the bucket has a key, if it is at rest.
    fn learn(
        &mut self,
        in_time: bool,
        command: Command,
        reply: &Reply,
        (granted, sent): (u64, Micros),
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> Option<Micros> {
        match *reply {
            Reply::First(true) => {
                self.estimate = Estimate::default();
                if let Command::FirstTake { count, full_at } = command
                    && full_at > 0
                {
                    self.estimate = Estimate::at_rest(count, full_at, cx);
                    let first_at = full_at.saturating_sub(cx.terms.time_at_rest(count));
                    self.correct_late(count, first_at, cx, out);
                    return Some(cx.redis.local(full_at));
                }
                Some(cx.terms.rests_until(cx.terms.time_of(granted), sent))
            }
            Reply::First(false) if cx.terms.rests_as_number() && !cx.has_earlier_terms() => {
                // Another worker has taken. The next take learns for how long the bucket is at rest.
                Some(cx.now.saturating_add(cx.terms.token_time()))
            }
            Reply::First(false) => {
                self.settle_next = true;
                None
            }
            Reply::AtRest { .. } | Reply::OtherTerms | Reply::NotAtRest => {
                let first_at = if let Command::TakeAtRest { first_at, .. } = command { first_at } else { 0 };
                self.learn_at_rest((command.count(), first_at), reply, (granted, sent), cx, out)
            }
            Reply::InWindow { left, was_set } => {
                let begins = if let Command::TakeInWindow { begins, .. } = command { begins } else { None };
                self.learn_in_window((command.count(), begins), (left, was_set), cx);
                None
            }
            Reply::Left(left) => {
                // Otherwise the bucket may have been full and absent by then, and the command left a stray counter.
                let was_counting = in_time && !self.is_in_doubt();
                if left < 0 && !was_counting {
                    self.forget();
                } else if in_time {
                    let left = u64::try_from(left).unwrap_or(0);
                    self.estimate.taken(granted, left, sent, cx.terms);
                }
                self.must_settle |= left < 0;
                None
            }
            Reply::NotCounting => {
                self.forget();
                None
            }
            Reply::Settled(settled) => {
                if !in_time {
                    return None;
                }
                let count = match command {
                    Command::Settle {
                        operation: Operation::Take(count) | Operation::Reserve(Reservation { count, .. }),
                        ..
                    } => count,
                    _ => 1,
                };
                self.estimate = Estimate::of_settle(&settled, count, sent, cx);
                let is_at_rest = !settled.counting && cx.window().is_none();
                is_at_rest.then(|| cx.settled_rests_until(settled.headroom, sent))
            }
        }
    }

    /// Answers all waiters with patience, if the limit is not enforced: they need not wait.
    pub(super) fn dismiss(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if cx.enforced || !self.queue.has_waiters() {
            return;
        }
        let denial =
            Denial { tokens: self.estimate.tokens(), capacity: self.estimate.capacity(cx.terms), wait: 0 };
        out.answer_all(self.queue.extract(|waiting| !waiting.is_take()), denied(denial));
    }

    /// Denies takes that the estimate denies, and waiters whose turn would come too late.
    pub(super) fn deny(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if !self.estimate.denies(cx.now) || !self.queue.has_takes() && self.unjudged == 0 {
            return;
        }
        let unjudged = std::mem::take(&mut self.unjudged) > 0;
        let (estimate, mut reserved, mut before) = (self.estimate, self.reserved(), 0_u64);
        let mut denials = Vec::new();
        let gone = self.queue.extract(|waiting| {
            // Reserved tokens are of the first waiter, or of the next one once it is denied. A take cannot wait for them.
            let for_it = if waiting.is_take() { 0 } else { reserved };
            let missing = waiting.count.saturating_sub(for_it);
            let turn = estimate.denial(missing, before, cx);
            let late = |denial: &Denial| cx.now.saturating_add(denial.wait) > waiting.until;
            let judged = waiting.is_take() || unjudged;
            match turn.filter(|denial| judged && late(denial)) {
                // It is told when it would get all of them.
                Some(denial) => denials.push(estimate.denial(waiting.count, before, cx).unwrap_or(denial)),
                None => {
                    reserved = reserved.saturating_sub(waiting.count);
                    before = before.saturating_add(missing);
                    return false;
                }
            }
            true
        });
        for (waiting, denial) in gone.into_iter().zip(denials) {
            out.answer(waiting.waiter, denied(denial));
        }
    }
}

#[cfg(test)]
mod tests {
    use topup_wire::{
        bucket::{Operation, Pace},
        reply::{Settled, Verdict},
    };

    use super::*;
    use crate::machine::{
        Event, Kind,
        one_bucket::{OneBucket, SECOND},
    };

    /// A bucket of 900 tokens that a settle has made counting at 0. It is full in `full_in` µs.
    fn counting(full_in: Micros) -> OneBucket {
        let mut bucket = OneBucket::new(Kind::Counting, Pace { n: 1, p: SECOND / 64 }, 1_000);
        let settled = Settled {
            verdict: Verdict::Allowed,
            tokens: 900,
            capacity: 1_000,
            wait: 0,
            headroom: full_in,
            now: 50,
            granted: 1,
            counting: true,
        };
        let first = bucket.take(0);
        assert_eq!(bucket.follows(first, 0, Reply::Settled(settled), 0), None);
        bucket
    }

    /// The command that follows the reply at `now` to a bare command for `takes` tokens that was sent at 0.
    fn after_a_late_reply(takes: u64, full_in: Micros, now: Micros) -> Option<Command> {
        let mut bucket = counting(full_in);
        let bare = bucket.take_together(takes, 0);
        assert!(matches!(bare.0, Command::Decrement { by, .. } if by == takes), "{bare:?}");
        if now > SECOND / 4 {
            bucket.step(Event::Wake, SECOND / 4);
        }
        bucket.follows(bare, 0, Reply::Left(900 - takes as i64), now)
    }

    fn settle_of(tokens: u64) -> Option<Command> {
        let in_doubt = Some(InDoubt { tokens, full_at: 0 });
        Some(Command::Settle { operation: Operation::Refund(0), may_count: true, in_doubt })
    }

    #[test]
    fn tokens_that_came_since_the_bucket_may_have_been_full_are_in_doubt() {
        // The worker's clock may run one part in 64 slow.
        let full_in = SECOND / 16;
        let known = full_in - full_in / 64;
        let token = SECOND / 64;
        assert_eq!(after_a_late_reply(3, full_in, known), None);
        assert_eq!(after_a_late_reply(3, full_in, known + 1), settle_of(1));
        assert_eq!(after_a_late_reply(3, full_in, known + token), settle_of(1));
        assert_eq!(after_a_late_reply(3, full_in, known + token + 1), settle_of(2));
        assert_eq!(after_a_late_reply(3, full_in, known + 9 * token), settle_of(3), "no more than it took");
    }

    #[test]
    fn all_tokens_are_in_doubt_if_the_bucket_may_count_anew() {
        // Overdue, but in time.
        assert_eq!(after_a_late_reply(3, 100 * SECOND, SECOND), None);
        // A put-back has kept the bucket from counting for 1.25 s, and it may count anew.
        assert_eq!(after_a_late_reply(3, 100 * SECOND, SECOND * 5 / 4), settle_of(3));
    }

    #[test]
    fn no_bare_command_is_sent_whose_reply_would_leave_tokens_in_doubt() {
        let mut bucket = counting(SECOND / 16);
        bucket.round_trip = SECOND / 32;
        let at = |now, bucket: &mut OneBucket| bucket.take(now).0;
        assert!(matches!(at(SECOND / 32, &mut bucket), Command::Settle { .. }));
        let mut bucket = counting(SECOND / 8);
        bucket.round_trip = SECOND / 32;
        assert!(matches!(at(SECOND / 32, &mut bucket), Command::Decrement { .. }));
    }
}
