//! What the reply to a command makes of a bucket: who is served, who is denied, and what is known after it.

use topup_wire::reply::Settled;

use super::{
    Actions, Answer, Command, Context, Micros, PutBack, Reply,
    denial::Denial,
    estimate::Estimate,
    hot::Added,
    prefetch::BURST_TTL,
    queue::Waiter,
    rest::tokens_at_rest,
    state::{Busy, InFlight, denied},
};
use crate::decision::Decision;

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Ends a command: until when the bucket has a key, if that is known now.
    pub(super) fn complete(
        &mut self,
        number: u32,
        command: Command,
        sent: Micros,
        reply: Option<Reply>,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> Option<Micros> {
        let flight = self.in_flight.filter(|flight| flight.number == number);
        if flight.is_some() {
            self.in_flight = None;
        }
        self.failed = reply.is_none();
        let Some(reply) = reply else {
            self.fail(flight, command, out);
            self.go_on(cx, out);
            return None;
        };
        let granted = command.granted(&reply, sent, cx);
        self.note_doubt(flight, command, granted, cx);
        self.return_stale(cx, out);
        let rests_until = self.learn(flight.is_some(), command, &reply, (granted, sent), cx, out);
        // And once more after it: a bucket that has ended counting leaves nothing gathered.
        self.return_stale(cx, out);
        let (left, capacity) = match reply {
            Reply::Settled(settled) => (settled.tokens, settled.capacity),
            Reply::First(_) => (cx.terms.capacity.saturating_sub(granted), cx.terms.capacity),
            Reply::Left(left) => (u64::try_from(left).unwrap_or(0), self.estimate.capacity(cx.terms)),
            Reply::AtRest(full_at) => (tokens_at_rest(full_at, cx), cx.terms.capacity),
            Reply::NotCounting | Reply::OtherTerms | Reply::NotAtRest => (0, cx.terms.capacity),
        };
        // After later replies nothing tells whether the bucket, with tokens of an overdue one, was below full all the time.
        let known_since = if flight.is_some() { sent } else { 0 };
        let served = self.distribute(granted, left, capacity, known_since, cx, out);
        // Where all was granted nobody is denied: who has got nothing goes with the next command.
        if granted < command.wanted()
            && let (Some(flight), Reply::Settled(settled)) = (flight, &reply)
        {
            let &Settled { tokens, capacity, wait, .. } = settled;
            self.deny_waiters(flight.waiters.saturating_sub(served), Denial { tokens, capacity, wait }, out);
        }
        self.go_on(cx, out);
        rests_until
    }

    /// Puts back tokens that are good no longer. Before a reply is learned from, since it tells nothing of the time between.
    fn return_stale(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if cx.hot.is_over(cx.now, cx.epoch) {
            self.renew_or_return(cx, out);
        }
        if self.gathered > 0 && self.good_until(self.gathered, cx.now, cx) <= cx.now {
            let tokens = std::mem::take(&mut self.gathered);
            out.put_back(PutBack { tokens, full_at: None, or_lost: false });
        }
    }

    /// A bare command that ended late may have run on a full bucket. The next settle is told.
    fn note_doubt(&mut self, flight: Option<InFlight>, command: Command, granted: u64, cx: &Context<'_>) {
        let certain = flight.is_some_and(|flight| cx.now < flight.certain_until);
        if matches!(command, Command::Decrement { .. }) && !certain {
            self.doubt = self.doubt.saturating_add(granted);
        }
    }

    /// No reply, and nobody knows whether the command was carried out.
    fn fail(&mut self, flight: Option<InFlight>, command: Command, out: &mut Actions<W>) {
        self.forget();
        if let Command::Settle { doubt, .. } = command {
            self.doubt = self.doubt.saturating_add(doubt);
        }
        for _ in 0..flight.map_or(0, |flight| flight.waiters) {
            if let Some(waiting) = self.queue.pop() {
                out.answer(waiting.waiter, Answer::Failed);
            }
        }
    }

    /// Learns from a reply: until when the bucket has a key, if it is at rest.
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
                    let first_at = full_at.saturating_sub(cx.terms.time_of(count));
                    self.correct_late(count, first_at, cx, out);
                    return Some(cx.redis.local(full_at));
                }
                Some(cx.terms.rests_until(cx.terms.time_of(granted), sent))
            }
            Reply::First(false) if cx.terms.rests_as_number() => {
                // Somebody else has taken: for how long it rests is told by the next take.
                Some(cx.now.saturating_add(cx.terms.pace.p))
            }
            Reply::First(false) => {
                self.settle_next = true;
                None
            }
            Reply::AtRest(_) | Reply::OtherTerms | Reply::NotAtRest => {
                let first_at = if let Command::TakeAtRest { first_at, .. } = command { first_at } else { 0 };
                self.learn_at_rest((command.wanted(), first_at), reply, (granted, sent), cx, out)
            }
            Reply::Left(left) => {
                match u64::try_from(left) {
                    Ok(left) if in_time => self.estimate.taken(granted, left, sent, cx.terms),
                    Ok(_) => {}
                    Err(_) => {
                        // It was empty, or had become full on the way and this has left a stray counter.
                        self.forget();
                        self.must_settle = true;
                    }
                }
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
                    Command::Settle { operation: topup_wire::bucket::Operation::Take(count), .. } => count,
                    _ => 1,
                };
                self.estimate = Estimate::of_settle(&settled, count, sent, cx);
                (!settled.counting).then(|| cx.terms.rests_until(settled.headroom, sent))
            }
        }
    }

    /// Serves the first waiters with `granted` tokens, as far as they go: how many were served. What is left is gathered
    /// for a waiter that wants several, kept in hand, or put back.
    pub(super) fn distribute(
        &mut self,
        granted: u64,
        left: u64,
        capacity: u64,
        sent: Micros,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> usize {
        let mut spare = granted + std::mem::take(&mut self.gathered);
        let mut served = 0;
        let beside = left.saturating_add(cx.hot.in_hand());
        loop {
            served += self.queue.close_up();
            let Some(first) = self.queue.first().filter(|first| first.count <= spare) else { break };
            // For who came after the command, its tokens are as tokens in hand.
            if first.since > sent && self.good_until(spare, sent, cx) <= cx.now {
                break;
            }
            spare -= first.count;
            let decision = Decision::Allowed { remaining: beside.saturating_add(spare), capacity };
            if let Some(waiting) = self.queue.pop() {
                out.answer(waiting.waiter, Answer::Decided(decision));
            }
            served += 1;
        }
        if spare == 0 {
            return served;
        }
        let gathers = self.gathers_for_first(cx);
        if gathers && self.good_until(spare, sent, cx) > cx.now {
            self.gathered = spare;
        } else {
            self.gathers_in_vain |= gathers;
            self.keep(spare, sent, cx, out);
        }
        served
    }

    /// Looks whether gathered tokens are still good, and still wanted.
    pub(super) fn settle_gathered(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.gathered == 0 {
            return;
        }
        let heard = self.estimate.heard_at();
        let gathers = self.gathers_for_first(cx);
        if gathers && self.good_until(self.gathered, cx.now, cx) > cx.now {
            return;
        }
        self.gathers_in_vain |= gathers;
        let tokens = std::mem::take(&mut self.gathered);
        self.keep(tokens, heard, cx, out);
    }

    /// Whether tokens are gathered for the first waiter.
    fn gathers_for_first(&self, cx: &Context<'_>) -> bool {
        self.queue.first().is_some_and(|first| !first.is_take() && self.gathers(first.count, cx))
    }

    /// Keeps tokens in hand for the next takers, if they are good for a while; otherwise puts them back.
    fn keep(&mut self, tokens: u64, sent: Micros, cx: &Context<'_>, out: &mut Actions<W>) {
        let in_hand = cx.hot.in_hand();
        let until = self.good_until(in_hand + tokens, sent, cx);
        if until <= cx.now {
            out.put_back(PutBack { tokens, full_at: self.full_at(tokens, cx), or_lost: false });
            return self.forget();
        }
        let prefetch = self.prefetch.get_or_insert_default();
        prefetch.come(tokens);
        let low = prefetch.low(in_hand + tokens, cx.now.saturating_sub(sent));
        let (beyond, capacity) = (self.estimate.tokens(), self.estimate.capacity(cx.terms));
        cx.hot.add(Added { tokens, until, epoch: cx.epoch, beyond, capacity, low });
    }

    /// Until when `in_hand` tokens may be spent, by what was last heard at `sent`.
    fn good_until(&self, in_hand: u64, sent: Micros, cx: &Context<'_>) -> Micros {
        // More than a lease allows are those of a burst.
        let leased = cx.terms.lease.filter(|lease| in_hand <= lease.max);
        let ttl = leased.map_or(BURST_TTL, |lease| lease.ttl.max(BURST_TTL));
        self.estimate.good_until(in_hand, cx.terms).min(sent.saturating_add(ttl)).min(cx.trusted_until)
    }

    /// Lets tokens in hand be spent for longer, if what was spent since allows it; otherwise puts them back.
    pub(super) fn renew_or_return(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        let heard = self.estimate.heard_at();
        let until = self.good_until(cx.hot.in_hand(), heard, cx);
        if until > cx.now {
            cx.hot.extend(until);
        } else {
            self.return_stock(0, cx, out);
        }
    }

    /// Tells waiters that nobody waits any more, where a denial does not hold: what comes of it is not for the bucket to say.
    pub(super) fn dismiss(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if cx.enforced || !self.queue.has_waiters() {
            return;
        }
        let denial =
            Denial { tokens: self.estimate.tokens(), capacity: self.estimate.capacity(cx.terms), wait: 0 };
        for waiting in self.queue.extract(|waiting| !waiting.is_take()) {
            out.answer(waiting.waiter, denied(denial));
        }
    }

    /// Denies takes that are known to be denied, and waiters whose turn is now known to come too late.
    pub(super) fn deny(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if !self.estimate.denies(cx.now) || !self.queue.has_takes() && self.unsure == 0 {
            return;
        }
        let unsure = std::mem::take(&mut self.unsure) > 0;
        let (estimate, mut before, mut told) = (self.estimate, 0_u64, Vec::new());
        let gone = self.queue.extract(|waiting| {
            let turn = estimate.denial(waiting.count, before, cx);
            let late = |denial: &Denial| cx.now.saturating_add(denial.wait) > waiting.until;
            let judged = waiting.is_take() || unsure;
            match turn.filter(|denial| judged && late(denial)) {
                Some(denial) => told.push(denial),
                None => {
                    before = before.saturating_add(waiting.count);
                    return false;
                }
            }
            true
        });
        for (waiting, denial) in gone.into_iter().zip(told) {
            out.answer(waiting.waiter, denied(denial));
        }
    }

    /// Tells the takes among the first `waiters` waiters what the reply says.
    fn deny_waiters(&mut self, waiters: usize, denial: Denial, out: &mut Actions<W>) {
        self.queue
            .extract_first(waiters)
            .into_iter()
            .for_each(|waiting| out.answer(waiting.waiter, denied(denial)));
    }
}
