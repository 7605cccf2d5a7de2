//! One bucket in the cache: its machine behind a lock, and what its steps ask for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smol_str::SmolStr;
use topup_wire::limit::{LimitName, Mode};

use super::{Asker, Handle, LaneRequest, LimitHandle, Pending, Published};
use crate::{
    decision::Decision,
    error::Error,
    machine::{
        Actions, Answer, BucketState, Command, Context, Denial, Event, HotCell, Micros, PutBack, Spent,
    },
};

/// A bucket of a limit. Of very many, each is looked up in main memory: what finds it and what is told at once come first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BucketEntry {
    key: Option<SmolStr>,
    limit: Arc<LimitHandle>,
    pub(super) hot: HotCell,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machine: BucketState<Asker>,
    /// A timer will step the machine then; 0: none.
    armed_at: Micros,
}

/// What came of a step, beside the answers.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The instant of the step: no waiter came between.
    pub(crate) at: Micros,
    pub(crate) command: Option<Command>,
    /// Tokens to put back, where the caller does that itself.
    pub(crate) put_back: Option<PutBack>,
}

// === impl BucketEntry ===

impl BucketEntry {
    pub(crate) fn new(limit: Arc<LimitHandle>, key: Option<&str>) -> Self {
        Self { key: key.map(SmolStr::new), limit, hot: HotCell::default(), state: Mutex::default() }
    }

    /// Whether this is the bucket of `limit`, or of its `key`.
    pub(crate) fn is_of(&self, limit: &LimitName, key: Option<&str>) -> bool {
        self.key() == key && self.limit.name == *limit
    }

    pub(crate) const fn limit(&self) -> &Arc<LimitHandle> {
        &self.limit
    }

    pub(crate) fn name(&self) -> &LimitName {
        &self.limit.name
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The limit as published now, if it has been read since.
    pub(crate) fn published(&self, client: &Handle) -> Option<Arc<Published>> {
        self.limit.current(client.shared().control.epoch())
    }

    /// Whether there may be something to tell at once, as far as can be said without a clock.
    #[inline]
    pub(crate) fn may_tell(&self) -> bool {
        self.hot.may_tell()
    }

    /// What a take of one token is told without a lock: a token in hand, or a denial.
    #[inline]
    pub(crate) fn at_once(self: &Arc<Self>, client: &Handle) -> Option<Decision> {
        let shared = client.shared();
        match self.hot.spend(shared.clock.now(), shared.control.epoch()) {
            Spent::Token(decision, low) => {
                if low {
                    self.step(Event::TakeAhead, client, None);
                }
                Some(decision)
            }
            Spent::Denied(denial) => Some(denial.into()),
            Spent::Nothing => None,
        }
    }

    /// Tokens in hand that are still good.
    pub(crate) fn in_hand(&self, client: &Handle) -> u64 {
        self.hot.good(client.shared().clock.now(), client.shared().control.epoch())
    }

    /// The denial of a take of `count` tokens, if it is remembered.
    pub(crate) fn denial(&self, count: u64, published: &Published, client: &Handle) -> Option<Denial> {
        let context = self.context(published, client);
        self.lock().machine.denial(count, &context)
    }

    /// The denial of a take of `count` tokens that was known last, if any.
    pub(crate) fn last_denial(&self, count: u64, published: &Published, client: &Handle) -> Option<Denial> {
        let context = self.context(published, client);
        self.lock().machine.last_denial(count, &context)
    }

    /// Whether a command is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lock().machine.is_in_flight()
    }

    /// The instant has come that a step asked for. Where someone waits and the limit may have changed, it is read anew.
    pub(crate) fn wake(self: &Arc<Self>, client: &Handle) {
        self.step(Event::Wake, client, None);
        if self.published(client).is_none() && self.lock().machine.has_waiters() {
            self.search(client);
        }
    }

    /// Takes `count` tokens, waiting for them until `until`.
    pub(crate) fn take<'b>(
        self: &'b Arc<Self>,
        count: u64,
        until: Option<Micros>,
        published: &Published,
        client: &'b Handle,
    ) -> Pending<'b> {
        let (waiter, pending) = Asker::new(count, client, self);
        let until = until.unwrap_or(0);
        self.step_under(Event::Take { waiter, count, until }, published, client, None);
        pending
    }

    /// Steps the machine, and does what it asks for. `error` is what those are told whose command failed.
    pub(crate) fn step(
        self: &Arc<Self>,
        event: Event<Asker>,
        client: &Handle,
        error: Option<&Error>,
    ) -> Outcome {
        // Without its terms there is nothing to step: nobody waits for it yet.
        let Some(published) = self.limit.last() else { return Outcome::default() };
        self.step_under(event, &published, client, error)
    }

    /// The same under the limit as published.
    pub(crate) fn step_under(
        self: &Arc<Self>,
        event: Event<Asker>,
        published: &Published,
        client: &Handle,
        error: Option<&Error>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut unwanted = self.step_once(event, (published, client), error, &mut outcome);
        while unwanted > 0 {
            unwanted = self.step_once(Event::Unwanted(unwanted), (published, client), error, &mut outcome);
        }
        outcome
    }

    /// One step: the tokens of answers that nobody was there to hear.
    fn step_once(
        self: &Arc<Self>,
        event: Event<Asker>,
        (published, client): (&Published, &Handle),
        error: Option<&Error>,
        outcome: &mut Outcome,
    ) -> u64 {
        let shared = client.shared();
        let puts_back = matches!(event, Event::PutsBack(_));
        let mut actions = Actions::default();
        let arm_at = {
            let mut state = self.lock();
            let context = self.context(published, client);
            outcome.at = context.now;
            if matches!(event, Event::Wake) {
                state.armed_at = 0;
            }
            state.machine.step(event, &context, &mut actions);
            let earlier = |at: &Micros| state.armed_at == 0 || *at < state.armed_at;
            let arm_at = actions.wake_at.filter(earlier);
            state.armed_at = arm_at.unwrap_or(state.armed_at);
            arm_at
        };
        if let Some(at) = arm_at {
            shared.timers.arm(at, self);
        }
        if let Some(adjust) = actions.adjust {
            let slot = published.locate(self.key()).keys.hash_slot;
            let request = LaneRequest::adjust(client, self, adjust);
            if adjust.soon {
                shared.lanes.send(slot, request);
            } else {
                shared.lanes.send_soon(slot, request);
            }
        }
        if let Some(number) = actions.dispatch {
            let slot = published.locate(self.key()).keys.hash_slot;
            shared.lanes.send(slot, LaneRequest::command(client, self, number));
        }
        if let Some(command) = actions.command {
            outcome.command = Some(command);
        }
        match actions.put_back {
            put_back if puts_back => outcome.put_back = put_back,
            Some(put_back) if put_back.tokens > 0 => shared.put_backs.push(self, put_back),
            _ => {}
        }
        actions.answers().map(|(asker, answer)| asker.tell(told(answer, error, client))).sum()
    }

    fn context<'c>(&'c self, published: &'c Published, client: &Handle) -> Context<'c> {
        let shared = client.shared();
        let control = &shared.control;
        let epoch = control.epoch();
        let trusted = published.epoch == epoch && !published.frozen;
        Context {
            now: shared.clock.now(),
            terms: &published.terms,
            epoch,
            trusted_until: if trusted { control.trusted_until() } else { 0 },
            deadline: shared.deadline_micros,
            round_trip: shared.round_trip.get(),
            daemon_alive: control.daemon_alive(),
            first_takes_pay: control.redis_now() >= published.absent_full_at
                && (published.terms.rests_as_number() || self.limit.first_takes_pay()),
            first_takes_sure: self.limit.first_takes_sure(),
            redis: control.redis_time(),
            enforced: published.mode(self.key()) == Mode::Enforce,
            hot: &self.hot,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst what was known before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a waiter is told.
fn told(answer: Answer, error: Option<&Error>, client: &Handle) -> Result<Decision, Error> {
    match answer {
        Answer::Decided(decision) => Ok(decision),
        Answer::Overdue => Err(Error::DeadlineExceeded { deadline: client.shared().deadline }),
        Answer::Failed => Err(error.cloned().unwrap_or_else(Error::client_gone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside an entry stand its two counts, its place in the cache, and what the allocator adds: some 50 bytes.
    #[test]
    fn a_bucket_at_rest_takes_little_memory_and_one_in_use_not_much() {
        let (at_rest, more) = (size_of::<BucketEntry>(), BucketState::<Asker>::size_of_use());
        println!("{at_rest} bytes at rest, {more} more in use");
        assert!(at_rest <= 104 && at_rest + more <= 352);
    }
}
