//! Granted tokens: they serve the first waiters. Spare ones are gathered, kept in hand or put back.

use super::{Actions, Answer, Context, Micros, busy::Busy, hot::Added, prefetch::BURST_TTL, queue::Waiter};
use crate::decision::Decision;

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Serves the first waiters with `granted` tokens and those gathered, and returns how many were served. A first waiter of
    /// several gets the prefetched tokens, too. Spare tokens are gathered for a waiter of several, kept as prefetched, or put
    /// back.
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
        if self.gathers_for_first(cx) {
            spare += self.take_prefetched(cx);
        }
        let mut served = 0;
        let beside = left.saturating_add(cx.hot.prefetched());
        loop {
            served += self.queue.remove_departed();
            let Some(first) = self.queue.first().filter(|first| first.count <= spare) else { break };
            // For a waiter that came after the command, its tokens are prefetched ones.
            if first.since > sent && (cx.is_paused() || self.good_until(spare, sent, cx) <= cx.now) {
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
            self.gathering_failed |= gathers;
            self.keep_spare(spare, sent, cx, out);
        }
        served
    }

    /// Serves the first waiters with the tokens in hand, if one of them waits for several. Keeps or puts back gathered tokens
    /// that are no longer good, or that no waiter wants any more.
    pub(super) fn settle_gathered(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        let gathers = self.gathers_for_first(cx);
        if gathers {
            self.gathered += self.take_prefetched(cx);
        }
        if self.gathered == 0 {
            return;
        }
        let heard = self.estimate.heard_at();
        if !cx.is_paused() && self.good_until(self.gathered, heard, cx) > cx.now {
            let (left, capacity) = (self.estimate.tokens(), self.estimate.capacity(cx.terms));
            self.distribute(0, left, capacity, heard, cx, out);
            return;
        }
        // The reply that brings the last tokens tells whether the others are still good.
        if gathers && self.good_until(self.gathered, cx.now, cx) > cx.now {
            return;
        }
        self.gathering_failed |= gathers;
        let tokens = std::mem::take(&mut self.gathered);
        self.keep_spare(tokens, heard, cx, out);
    }

    /// Takes the prefetched tokens out of the hot cell.
    pub(super) fn take_prefetched(&mut self, cx: &Context<'_>) -> u64 {
        let tokens = cx.hot.empty();
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.gone(tokens);
        }
        tokens
    }

    /// Whether tokens are gathered for the first waiter.
    fn gathers_for_first(&self, cx: &Context<'_>) -> bool {
        self.queue.first().is_some_and(|first| self.gathers(first, cx))
    }

    /// Keeps tokens for later takes, if they are still good; otherwise puts them back.
    fn keep_spare(&mut self, tokens: u64, sent: Micros, cx: &Context<'_>, out: &mut Actions<W>) {
        let before = cx.hot.prefetched();
        let until = self.good_until(before + tokens, sent, cx);
        if until <= cx.now {
            let full_at = self.full_at(tokens, tokens, cx);
            return self.put_back(tokens, full_at, sent, cx, out);
        }
        let prefetch = self.prefetch.get_or_insert_default();
        prefetch.come(tokens);
        let low = prefetch.low(before + tokens, cx.now.saturating_sub(sent));
        let (beyond, capacity) = (self.estimate.tokens(), self.estimate.capacity(cx.terms));
        cx.hot.add(Added { tokens, until, epoch: cx.epoch, beyond, capacity, low });
    }

    /// Until when `tokens` in hand, which are all, may be spent, by a reply to a command sent at `sent`.
    pub(super) fn good_until(&self, tokens: u64, sent: Micros, cx: &Context<'_>) -> Micros {
        // More tokens than the lease allows are those of a burst.
        let leased = cx.terms.lease.filter(|lease| tokens <= lease.max);
        let ttl = leased.map_or(BURST_TTL, |lease| lease.ttl.max(BURST_TTL));
        let below_full = if self.estimate.was_counting() { self.below_full_until(tokens, cx) } else { 0 };
        below_full.min(sent.saturating_add(ttl)).min(cx.trusted_until)
    }

    /// Extends the time of prefetched tokens that is over, if the takes since allow it; otherwise puts them back.
    pub(super) fn renew_or_return(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if !cx.hot.is_over(cx.now, cx.epoch) {
            return;
        }
        let heard = self.estimate.heard_at();
        let until = self.good_until(self.in_hand(cx), heard, cx);
        if until > cx.now {
            cx.hot.extend(until);
        } else {
            self.return_prefetched(0, cx, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use topup_wire::{
        bucket::{Operation, Pace},
        reply::{Settled, Verdict},
    };

    use super::*;
    use crate::machine::{
        Command, Event, FirstTakes, Kind, Reply,
        one_bucket::{Caller, OneBucket},
    };

    const TOKEN: Micros = 5_000;

    /// What is told to the waiters, whether they are allowed, and the operation that is sent.
    fn outcome(bucket: &mut OneBucket, event: Event<Caller>, now: Micros) -> (Vec<bool>, Option<Operation>) {
        let mut out = bucket.step(event, now);
        let told = out
            .answers()
            .map(|(_, answer)| matches!(answer, Answer::Decided(decision) if decision.is_allowed()));
        let told = told.collect();
        let ready = |number| bucket.step(Event::Ready(number), now).command;
        let operation = out.dispatch.and_then(ready).map(|command| match command {
            Command::Settle { operation, .. } => operation,
            command => panic!("{command:?}"),
        });
        (told, operation)
    }

    /// The outcome of a waiter that comes, and how to have it leave.
    fn waits(
        bucket: &mut OneBucket,
        count: u64,
        until: Micros,
        now: Micros,
    ) -> (Vec<bool>, Option<Operation>, Rc<Cell<bool>>) {
        let waiter = Caller::default();
        let left = waiter.left.clone();
        let (told, operation) = outcome(bucket, Event::Take { waiter, count, until }, now);
        (told, operation, left)
    }

    fn reply(
        bucket: &mut OneBucket,
        number: u32,
        wanted: u64,
        granted: u64,
        wait: Micros,
        now: Micros,
    ) -> Vec<bool> {
        let settled = Settled {
            verdict: if granted > 0 { Verdict::Allowed } else { Verdict::Denied },
            tokens: 0,
            capacity: 10,
            wait,
            headroom: 10 * TOKEN,
            now,
            granted,
            counting: true,
        };
        let command =
            Command::Settle { operation: Operation::Share(wanted), may_count: true, in_doubt: None };
        let reply = Some(Reply::Settled(settled));
        outcome(bucket, Event::Completed { number, command, sent: now, reply }, now).0
    }

    /// A bucket with a waiter of 8 tokens until the instant `until`, and how to have it leave. It has 7 of them at the instant 0.
    fn waiter_of_eight(until: Micros) -> (OneBucket, Rc<Cell<bool>>) {
        let mut bucket = OneBucket::new(Kind::TwoForms, Pace { n: 1, p: TOKEN }, 10);
        bucket.first_takes = FirstTakes::Unlikely;
        let (told, operation, left) = waits(&mut bucket, 8, until, 0);
        assert_eq!((told, operation), (vec![], Some(Operation::Share(8))));
        assert_eq!(reply(&mut bucket, 1, 8, 7, TOKEN, 0), [false; 0]);
        (bucket, left)
    }

    #[test]
    fn a_waiter_is_judged_by_the_tokens_that_it_still_misses() {
        let (mut bucket, _) = waiter_of_eight(6 * TOKEN);
        assert_eq!(waits(&mut bucket, 4, 6 * TOKEN, 10).0, [false; 0], "both get them in time");
        assert_eq!(waits(&mut bucket, 4, 6 * TOKEN, 20).0, [false], "too late for a third one");
    }

    #[test]
    fn gathered_tokens_are_of_the_next_waiter_if_the_first_leaves() {
        let (mut bucket, left) = waiter_of_eight(60 * TOKEN);
        left.set(true);
        let (told, operation, _) = waits(&mut bucket, 4, 60 * TOKEN, 10);
        assert_eq!((told, operation), (vec![true], None));
        // The 3 left are in hand, and part of what a waiter gathers.
        let (told, operation, _) = waits(&mut bucket, 8, 60 * TOKEN, 20);
        assert_eq!((told, operation), (vec![], None));
        assert_eq!(outcome(&mut bucket, Event::Wake, TOKEN), (vec![], Some(Operation::Share(5))));
    }

    #[test]
    fn gathered_tokens_outlast_a_reply_that_brings_none() {
        let (mut bucket, _) = waiter_of_eight(60 * TOKEN);
        assert_eq!(outcome(&mut bucket, Event::Wake, TOKEN), (vec![], Some(Operation::Share(1))));
        assert_eq!(reply(&mut bucket, 2, 1, 0, TOKEN, TOKEN), [false; 0], "others have taken the next one");
        assert_eq!(outcome(&mut bucket, Event::Wake, 2 * TOKEN), (vec![], Some(Operation::Share(1))));
        assert_eq!(reply(&mut bucket, 3, 1, 1, TOKEN, 2 * TOKEN), [true]);
    }

    #[test]
    fn a_new_waiter_yields_to_others_and_one_that_gathers_does_not() {
        let wakes_at = |granted| {
            let mut bucket = OneBucket::new(Kind::TwoForms, Pace { n: 1, p: TOKEN }, 10);
            bucket.first_takes = FirstTakes::Unlikely;
            waits(&mut bucket, 8, 60 * TOKEN, 0);
            reply(&mut bucket, 1, 8, granted, TOKEN, 0);
            bucket.step(Event::Wake, 0).wake_at
        };
        assert_eq!((wakes_at(0), wakes_at(1)), (Some(TOKEN * 3 / 2), Some(TOKEN)));
    }
}
