//! Granted tokens: they serve the first waiters. Spare ones are kept in hand or put back.

use super::{Actions, Answer, Context, Micros, busy::Busy, hot::Added, prefetch::BURST_TTL, queue::Waiter};
use crate::decision::Decision;

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Serves the first waiters with `granted` tokens, and returns how many were served. A first waiter of several may get
    /// prefetched tokens, too. Spare tokens are kept as prefetched, or put back.
    pub(super) fn distribute(
        &mut self,
        granted: u64,
        left: u64,
        capacity: u64,
        sent: Micros,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> usize {
        let mut spare = granted;
        let all = granted.saturating_add(cx.hot.prefetched());
        if self.queue.first().is_some_and(|first| (granted + 1..=all).contains(&first.count)) {
            spare += self.take_prefetched(cx);
        }
        let served = self.serve(&mut spare, left, capacity, sent, cx, out);
        if spare > 0 {
            self.keep_spare(spare, sent, cx, out);
        }
        served
    }

    /// Serves the first waiters with `spare` tokens, granted by a command that was sent at `sent`. Returns how many were
    /// served.
    pub(super) fn serve(
        &mut self,
        spare: &mut u64,
        left: u64,
        capacity: u64,
        sent: Micros,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> usize {
        let mut served = 0;
        let beside = left.saturating_add(cx.hot.prefetched());
        loop {
            served += self.queue.remove_departed();
            let Some(first) = self.queue.first().filter(|first| first.count <= *spare) else { break };
            // For a waiter that came after the command, its tokens are prefetched ones.
            if first.since > sent && (cx.is_paused() || self.good_until(*spare, sent, cx) <= cx.now) {
                break;
            }
            *spare -= first.count;
            if !first.is_take() {
                self.lost_its_turn = false;
                self.reservations.get_or_insert_default().served(cx.now);
            }
            let decision = Decision::Allowed { remaining: beside.saturating_add(*spare), capacity };
            if let Some(waiting) = self.queue.pop() {
                out.answer(waiting.waiter, Answer::Decided(decision));
            }
            served += 1;
        }
        served
    }

    /// Takes the prefetched tokens out of the hot cell.
    pub(super) fn take_prefetched(&mut self, cx: &Context<'_>) -> u64 {
        let tokens = cx.hot.empty();
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.gone(tokens);
        }
        tokens
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
