//! The choice of the command for all waiters.

use topup_wire::{
    bucket::Operation,
    scripts::{InDoubt, can_take_first},
};

use super::{
    Actions, Command, Context, FirstTakes, Kind,
    busy::{Busy, InFlight},
    prefetch::{Allowance, BURST},
    queue::Waiter,
    rest::Rest,
};

/// A bucket holds plenty with this many times what is wanted. Takes of several tokens then share a bare command.
pub(super) const PLENTY: u64 = 4;

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// The command to write now for all waiters.
    pub(super) fn write(
        &mut self,
        number: u32,
        rest: &Rest,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) -> Option<Command> {
        let in_flight =
            self.in_flight.filter(|in_flight| in_flight.number == number && !in_flight.written)?;
        self.queue.remove_departed();
        // A take that cannot be answered in time is not sent.
        self.expire_takes(cx.now.saturating_add(cx.round_trip), cx, out);
        self.hold(cx, out);
        let built = self.build(rest, cx);
        self.in_flight = built.map(|(_, waiters, ahead)| InFlight {
            since: cx.now,
            waiters,
            written: true,
            ahead,
            ..in_flight
        });
        let (command, ..) = built?;
        if let Command::Settle { .. } = command {
            (self.settle_next, self.must_settle, self.in_doubt) = (false, false, InDoubt::default());
        }
        Some(command)
    }

    /// A command, the number of waiters that it is for, and the tokens that it prefetches.
    fn build(&mut self, rest: &Rest, cx: &Context<'_>) -> Option<(Command, usize, u64)> {
        // The first waiter gets the tokens that it has reserved.
        if cx.is_paused() || self.must_end_window(cx) || self.reserved() > 0 {
            let must_settle = self.must_settle || self.is_in_doubt();
            return must_settle.then(|| (self.settle(Operation::Refund(0), rest, cx), 0, 0));
        }
        if let Some(operation) = self.reserve(cx) {
            return Some((self.settle(operation, rest, cx), 1, 0));
        }
        let (waiters, demand) = self.served_together(cx);
        if let Some(count) = self.queue.first().filter(|_| waiters == 0).map(|first| first.count) {
            self.prefetches = false;
            let command = if self.may_take_first(count, rest, cx) {
                Command::FirstTake { count, full_at: 0 }
            } else if self.may_take_at_rest(count, rest, cx) {
                Command::TakeAtRest { count, first_at: 0 }
            } else {
                self.settle(Operation::Take(count), rest, cx)
            };
            return Some((command, 1, 0));
        }
        let ahead = self.prefetch_size(waiters, demand, cx);
        let count = demand + ahead;
        if count == 0 {
            let idle = !self.must_settle && !self.is_in_doubt();
            return if idle { None } else { Some((self.settle(Operation::Refund(0), rest, cx), 0, 0)) };
        }
        let is_exact = self.is_certain() && self.estimate.may_decrement(count, cx);
        let command = if is_exact {
            self.estimate.decrement(count)
        } else if let Some(window) = self.window_to_count_in(cx) {
            cx.take_in_window(window, count, rest)
        } else if self.may_take_first(count, rest, cx) {
            self.first_take(count, rest, cx)
        } else if ahead == 0 && self.rests_on(count, rest, cx) && self.may_take_at_rest(count, rest, cx) {
            Command::TakeAtRest { count, first_at: 0 }
        } else if cx.terms.lease.is_some() || waiters > 1 {
            self.settle(Operation::Lease(count), rest, cx)
        } else {
            self.settle(Operation::Share(count), rest, cx)
        };
        Some((command, waiters, ahead))
    }

    /// The waiters at the front that the next command serves together, and the tokens that they want. No waiters if the first
    /// one wants several tokens, and has a command of its own.
    ///
    /// Takes of several share a bare command where the bucket holds plenty. It takes what there is, and they want all or
    /// nothing.
    fn served_together(&self, cx: &Context<'_>) -> (usize, u64) {
        let of_one = self.queue.waiters_for_one();
        if of_one < self.queue.len() && self.is_certain() {
            let (waiters, demand) = self.queue.waiters_for(self.estimate.tokens() / PLENTY);
            if waiters > of_one && self.estimate.may_decrement(demand, cx) {
                return (waiters, demand);
            }
        }
        (of_one, of_one as u64)
    }

    fn settle(&self, operation: Operation, rest: &Rest, cx: &Context<'_>) -> Command {
        let may_count = self.may_count(operation.count(), rest, cx);
        Command::Settle { operation, may_count, in_doubt: Some(self.in_doubt).filter(|_| self.is_in_doubt()) }
    }

    /// Whether no settle has to come next.
    pub(super) fn is_certain(&self) -> bool {
        !self.settle_next && !self.must_settle && !self.is_in_doubt()
    }

    /// Whether a first take of `count` tokens is worth a try.
    fn may_take_first(&self, count: u64, rest: &Rest, cx: &Context<'_>) -> bool {
        cx.terms.kind == Kind::TwoForms
            && self.is_certain()
            && cx.is_trusted()
            && cx.first_takes != FirstTakes::Unlikely
            && cx.now >= rest.until
            && can_take_first(cx.terms.capacity, cx.terms.pace, count)
            && cx.terms.is_full_before_change(count, cx.redis.latest(cx.now))
            && !self.estimate.may_be_counting(cx)
    }

    /// Tokens to prefetch with a command for `waiters`.
    fn prefetch_size(&mut self, waiters: usize, demand: u64, cx: &Context<'_>) -> u64 {
        let prefetches = std::mem::take(&mut self.prefetches);
        let is_asked = prefetches || waiters >= BURST;
        let may_lease = waiters > 0 && cx.terms.lease.is_some();
        if !(is_asked || may_lease) || !cx.terms.counts() {
            return 0;
        }
        let certain = self.is_certain() && self.estimate.may_decrement(demand + 1, cx);
        if !(is_asked || certain) {
            return 0;
        }
        let left = cx.hot.prefetched();
        let below_full_for = if certain { self.estimate.certain_until().saturating_sub(cx.now) } else { 0 };
        let tokens = self.estimate.tokens().saturating_sub(demand);
        let lease = cx.terms.lease.map(|lease| Allowance::of_lease(lease, tokens, below_full_for));
        let prefetch = self.prefetch.get_or_insert_default();
        prefetch.look(cx.now, left, waiters, demand);
        let burst = Allowance::of_burst(tokens, below_full_for);
        let burst = burst.filter(|_| cx.terms.lease.is_none() || prefetch.is_burst());
        let size = [lease, burst].into_iter().flatten().map(|allowance| prefetch.size(allowance)).max();
        let size = size.unwrap_or(0);
        // A `try_take` that found no token is likely to come again.
        let tries = prefetches && waiters == 0 && left == 0 && below_full_for > 0;
        size.max(u64::from(tries))
    }
}
