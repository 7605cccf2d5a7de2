//! The state of one bucket in a worker, and the step that an event makes.

use topup_wire::reply::{Settled, Verdict};

use super::{
    Actions, Context, Event, Micros, Reply, build::PLENTY, busy::Busy, denial::Denial, estimate::Estimate,
    queue::Waiter, rest::Rest,
};

/// A bucket that has denied has plenty again with more than its capacity divided by this.
const FILLED_PART: u64 = 8;

/// The state of one bucket in a worker.
#[derive(Debug)]
pub struct BucketState<W> {
    rest: Rest,
    /// The state of a bucket in use. Most buckets of a worker have none.
    busy: Option<Box<Busy<W>>>,
}

// === impl BucketState ===

impl<W> Default for BucketState<W> {
    fn default() -> Self {
        Self { rest: Rest::default(), busy: None }
    }
}

impl<W: Waiter> BucketState<W> {
    /// Processes `event`, and adds actions to `out`.
    pub fn step(&mut self, event: Event<W>, cx: &Context<'_>, out: &mut Actions<W>) {
        if self.busy.is_none() && matches!(event, Event::Wake | Event::Changed | Event::PutsBack(_)) {
            return;
        }
        let busy = self.busy.get_or_insert_default();
        match event {
            Event::Take { waiter, count, until } => {
                self.rest.ask(busy.spent(cx), cx);
                busy.take(waiter, count, until, cx, out);
            }
            Event::Ready(number) => out.command = busy.write(number, &self.rest, cx, out),
            Event::Completed { number, command, sent, reply } => {
                let expired = self.rest.expires_at(cx) <= cx.now;
                // A script tells no headroom where the key is gone, or lives on when the bucket is full, as a window's does.
                let ends_when_full = !matches!(reply, Some(Reply::Settled(Settled { headroom: 0, .. })));
                if let Some(until) = busy.complete(number, command, sent, reply, cx, out) {
                    self.rest.learn(until, cx);
                    // The command may have run at any time until now.
                    let late = cx.now.saturating_sub(sent);
                    let expires_at = self.rest.expires_at(cx).saturating_add(late);
                    out.expires_at = (expired && ends_when_full).then_some(expires_at);
                } else if let Some(until) = cx.window_until(command, reply, sent, &self.rest) {
                    self.rest.learn(until, cx);
                }
            }
            Event::NotCorrected(in_doubt) => busy.not_corrected(in_doubt, cx, out),
            Event::Wake => {
                busy.expire(cx, out);
                busy.go_on(cx, out);
            }
            Event::TakeAhead => {
                busy.prefetches = true;
                busy.dispatch(cx, out);
            }
            Event::Unwanted { tokens, since } => {
                // The bucket may have been full since they were granted.
                busy.put_back(tokens, None, since, cx, out);
                busy.go_on(cx, out);
            }
            Event::Heard { settled, count, sent } => match settled.verdict {
                Verdict::Denied if busy.in_flight.is_none() => {
                    busy.estimate = Estimate::of_settle(&settled, count, sent, cx);
                }
                Verdict::Allowed if settled.tokens > settled.capacity / FILLED_PART => {
                    busy.estimate.end_denial();
                    let until = cx.settled_rests_until(settled.headroom, sent);
                    self.rest.learn(until.max(self.rest.until), cx);
                }
                _ => {}
            },
            Event::PutsBack(more) => busy.return_prefetched(more, cx, out),
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

    /// Bytes that a bucket in use takes beside those at rest.
    #[cfg(test)]
    pub(crate) fn size_of_use() -> usize {
        size_of::<Busy<W>>()
    }

    /// Until when the bucket is below full, by the last reply; 0 if that is unknown.
    pub fn full_at(&self, cx: &Context<'_>) -> Micros {
        let at_rest = if cx.window().is_some() { 0 } else { self.rest.until };
        self.busy.as_ref().map_or(0, |busy| busy.estimate.full_at(cx)).max(at_rest)
    }

    /// When the bucket's key has expired, as far as this worker knows; 0 if it knows of no key.
    pub(crate) fn expires_at(&self, cx: &Context<'_>) -> Micros {
        self.rest.expires_at(cx)
    }

    /// Whether any waiter has patience.
    pub fn has_waiters(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.queue.has_waiters())
    }

    /// Whether a command is in flight.
    pub fn is_in_flight(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_flight.is_some())
    }

    /// The last known denial of a take of `count` tokens, though its time may be over.
    pub fn last_denial(&self, count: u64, cx: &Context<'_>) -> Option<Denial> {
        cx.or_paused(self.busy.as_ref().and_then(|busy| busy.estimate.last_denial(count, cx)))
    }

    /// Whether the bucket has `count` tokens in hand, or held plenty for them by the last reply. False if this worker has heard
    /// nothing of it.
    pub fn has_plenty(&self, count: u64, cx: &Context<'_>) -> bool {
        let (in_hand, pending, tokens) = match &self.busy {
            Some(busy) => (cx.hot.prefetched(), busy.pending(), busy.estimate.tokens_if_counting(cx)),
            None => (0, 0, 0),
        };
        let capacity = cx.terms.capacity;
        let at_rest = match self.full_at(cx) {
            0 => 0,
            // Tokens do not come with time. The script that told the instant found so many at least.
            _ if cx.terms.pace.n == 0 => capacity / FILLED_PART,
            full_at => capacity.saturating_sub(cx.terms.missing(full_at.saturating_sub(cx.now))),
        };
        let is_plenty = tokens.max(at_rest) / PLENTY >= pending.saturating_add(count);
        in_hand >= count || is_plenty && self.last_denial(count, cx).is_none()
    }

    /// The denial of a take of `count` tokens, if there is one.
    pub fn denial(&self, count: u64, cx: &Context<'_>) -> Option<Denial> {
        cx.or_paused(self.busy.as_ref().and_then(|busy| busy.estimate.denial(count, 0, cx)))
    }
}
