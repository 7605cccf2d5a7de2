//! An entry of the bucket cache: a bucket's machine behind a lock, and the actions of its steps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use smol_str::SmolStr;
use topup_wire::{
    counts::Count,
    keyspace::{KeyHash, ShardKeys},
    limit::{LimitName, Mode},
    namespace::InNamespace,
};

use super::{Handle, LimitHandle, Pending, PipelineRequest, Placed, Published, TaskWaiter};
use crate::{
    decision::Decision,
    error::{Answered, Error},
    machine::{
        Actions, Answer, BucketState, Command, Context, Denial, Event, FirstTakes, HotCell, Micros, PutBack,
        Spent,
    },
};

/// A reply for this many waiters answers some of them now, and the others once the next command is written. Otherwise all
/// of them would wait for Redis, and then Redis for all of them.
const BY_TURNS: usize = 64;

/// A bucket of a limit. With very many buckets, each lies in main memory. A look-up reads the fields before and after the
/// state, so that the processor fetches all its cache lines at once.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BucketEntry {
    key: Option<SmolStr>,
    key_hash: KeyHash,
    pub(super) hot: HotCell,
    state: Mutex<State>,
    limit: Arc<LimitHandle>,
    /// The place of the key's takes, if its limit has plans.
    pub(crate) placed: ArcSwapOption<Placed>,
}

#[derive(Debug, Default)]
struct State {
    machine: BucketState<TaskWaiter>,
    /// The instant of the bucket's timer; 0 without one.
    armed_at: Micros,
}

/// The result of a step, beside the answers to waiters.
#[derive(Debug, Default)]
pub(crate) struct StepResult {
    /// The instant of the step.
    pub(crate) at: Micros,
    pub(crate) command: Option<Command>,
    /// Tokens that the caller of the step puts back itself.
    pub(crate) put_back: Option<PutBack>,
}

// === impl BucketEntry ===

impl BucketEntry {
    pub(crate) fn new(limit: Arc<LimitHandle>, key: Option<&str>) -> Self {
        Self {
            key: key.map(SmolStr::new),
            key_hash: KeyHash::of(key.unwrap_or_default()),
            limit,
            hot: HotCell::default(),
            state: Mutex::default(),
            placed: ArcSwapOption::empty(),
        }
    }

    /// Whether this is the bucket of `limit`, or of its `key`.
    pub(crate) fn is_of(&self, limit: &Arc<LimitHandle>, key: Option<&str>) -> bool {
        // A client has one handle of a limit.
        self.key() == key && Arc::ptr_eq(&self.limit, limit)
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

    /// The hash of the key; that of an empty one for an unkeyed limit.
    pub(crate) const fn key_hash(&self) -> KeyHash {
        self.key_hash
    }

    /// The key as it is kept.
    pub(crate) fn kept_key(&self) -> Option<&SmolStr> {
        self.key.as_ref()
    }

    /// The limit as published now, if it has been read.
    pub(crate) fn published(&self, client: &Handle) -> Option<Arc<Published>> {
        self.limit.current(client.shared().control.epoch())
    }

    /// Whether memory may answer a take: it may hold a prefetched token or a denial. Reads no clock.
    #[inline]
    pub(crate) fn may_tell(&self) -> bool {
        self.hot.may_tell()
    }

    /// The answer to a take of one token without a lock: a prefetched token, or a cached denial.
    #[inline]
    pub(crate) fn at_once(self: &Arc<Self>, client: &Handle) -> Option<Decision> {
        self.at_once_noting(client, |_| {})
    }

    /// [`at_once`](Self::at_once), after `note` of what is to be counted. To read that from the decision instead doubles
    /// the time of a take from memory.
    #[inline]
    pub(crate) fn at_once_noting(
        self: &Arc<Self>,
        client: &Handle,
        note: impl FnOnce(Count),
    ) -> Option<Decision> {
        let shared = client.shared();
        if self.is_paused(client) {
            return None;
        }
        match self.hot.spend(shared.clock.now(), self.limit.epoch(shared.control.epoch())) {
            Spent::Token(decision, low) => {
                note(Count::Allowed);
                if low {
                    self.step(Event::TakeAhead, client, None);
                }
                Some(decision)
            }
            Spent::Denied(denial) => {
                note(Count::Denied);
                Some(denial.into())
            }
            Spent::Nothing => None,
        }
    }

    /// Prefetched tokens that may still be spent.
    pub(crate) fn prefetched(&self, client: &Handle) -> u64 {
        let epoch = self.limit.epoch(client.shared().control.epoch());
        self.hot.good(client.shared().clock.now(), epoch)
    }

    /// The denial of a take of `count` tokens, if the estimate knows it.
    pub(crate) fn denial(&self, count: u64, published: &Published, client: &Handle) -> Option<Denial> {
        let context = self.context(published, client);
        self.lock().machine.denial(count, &context)
    }

    /// The last known denial of a take of `count` tokens, though its time may be over.
    pub(crate) fn last_denial(&self, count: u64, published: &Published, client: &Handle) -> Option<Denial> {
        let context = self.context(published, client);
        self.lock().machine.last_denial(count, &context)
    }

    /// Until when the bucket is below full, as far as the worker knows; 0 if it does not.
    pub(super) fn full_at(&self, published: &Published, client: &Handle) -> Micros {
        let context = self.context(published, client);
        self.lock().machine.full_at(&context)
    }

    /// The keys of the bucket's shard; those of the first shard for a limit that was never read.
    pub(super) fn shard_keys(&self, client: &Handle) -> ShardKeys {
        match self.limit.last() {
            Some(published) => published.locate(self).keys.clone(),
            None => ShardKeys::new(client.shared().connection().namespace(), self.name(), 0),
        }
    }

    /// Whether a command is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lock().machine.is_in_flight()
    }

    /// Steps the machine at the instant of its timer. If waiters are left and the limit may have changed, reads the limit.
    pub(crate) fn wake(self: &Arc<Self>, client: &Handle) {
        self.step(Event::Wake, client, None);
        if self.published(client).is_none() && self.lock().machine.has_waiters() {
            self.search(client);
        }
    }

    /// Takes `count` tokens, or waits for them until `until`.
    pub(crate) fn take<'b>(
        self: &'b Arc<Self>,
        count: u64,
        until: Option<Micros>,
        published: &Arc<Published>,
        client: &'b Handle,
    ) -> Pending<'b> {
        let (waiter, mut pending) = TaskWaiter::new(count, client, self);
        let until = until.unwrap_or(0);
        pending.since = self.step_under(Event::Take { waiter, count, until }, published, client, None).at;
        pending
    }

    /// Steps the machine and carries out its actions. `error` is the answer to waiters of a failed command.
    pub(crate) fn step(
        self: &Arc<Self>,
        event: Event<TaskWaiter>,
        client: &Handle,
        error: Option<&Error>,
    ) -> StepResult {
        // A bucket whose limit was never read has no waiters.
        let Some(published) = self.limit.last() else { return StepResult::default() };
        self.step_under(event, &published, client, error)
    }

    /// [`step`](Self::step) under the terms of `published`.
    pub(crate) fn step_under(
        self: &Arc<Self>,
        event: Event<TaskWaiter>,
        published: &Arc<Published>,
        client: &Handle,
        error: Option<&Error>,
    ) -> StepResult {
        let mut result = StepResult::default();
        let mut unwanted = self.step_once(event, (published, client), error, &mut result);
        while unwanted > 0 {
            let event = unwanted_of(unwanted, result.at, client);
            unwanted = self.step_once(event, (published, client), error, &mut result);
        }
        result
    }

    /// One step. Returns the tokens of answers that no task waits for any more.
    fn step_once(
        self: &Arc<Self>,
        event: Event<TaskWaiter>,
        (published, client): (&Arc<Published>, &Handle),
        error: Option<&Error>,
        result: &mut StepResult,
    ) -> u64 {
        let shared = client.shared();
        let puts_back = matches!(event, Event::PutsBack(_));
        let is_reply = matches!(event, Event::Completed { reply: Some(_), .. });
        let mut actions = Actions::default();
        let arm_at = {
            let mut state = self.lock();
            let context = self.context(published, client);
            result.at = context.now;
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
        let hash_slot = || published.locate(self).keys.hash_slot;
        if let Some(correction) = actions.correction {
            let request = PipelineRequest::correction(client, self, correction);
            if correction.is_urgent() {
                shared.pipelines.send(hash_slot(), request);
            } else {
                shared.pipelines.send_soon(hash_slot(), request);
            }
        }
        if let Some(number) = actions.dispatch {
            shared.pipelines.send(hash_slot(), PipelineRequest::command(client, self, number, published));
        }
        result.command = actions.command.or(result.command);
        match actions.put_back {
            put_back if puts_back => result.put_back = put_back,
            Some(put_back) if !put_back.is_empty() => shared.put_backs.push(self, put_back),
            _ => {}
        }
        let at_once = match actions.len() {
            0 => return 0,
            many if many < BY_TURNS || !is_reply => many,
            // The next command serves others, who wait for it already.
            _ if actions.dispatch.is_some() => 0,
            many => many / 2,
        };
        let (mut unwanted, mut others) = (0, Vec::new());
        for (turn, (waiter, answer)) in actions.answers().enumerate() {
            let answer = answer_of(answer, error, client);
            if turn < at_once {
                unwanted += waiter.send(answer);
            } else {
                others.push((waiter, answer));
            }
        }
        if !others.is_empty() {
            let (entry, client, at) = (self.clone(), client.clone(), result.at);
            let later = move || entry.answer_later(others, at, &client);
            shared.pipelines.after_write(hash_slot(), Box::new(later));
        }
        unwanted
    }

    /// Gives the answers of an earlier step.
    fn answer_later(self: &Arc<Self>, answers: Vec<(TaskWaiter, Answered)>, at: Micros, client: &Handle) {
        let unwanted = answers.into_iter().map(|(waiter, answer)| waiter.send(answer)).sum();
        if unwanted > 0 {
            self.step(unwanted_of(unwanted, at, client), client, None);
        }
    }

    fn context<'c>(&'c self, published: &'c Published, client: &Handle) -> Context<'c> {
        let shared = client.shared();
        let control = &shared.control;
        let epoch = self.limit.epoch(control.epoch());
        let trusted = published.epoch == epoch && !published.frozen;
        let redis = control.redis_time();
        let trusted_until =
            if trusted { published.terms.trusted_until(control.trusted_until(), redis) } else { 0 };
        // A first take notes the full instant up to 3 ms late. A test moves its clock by the very time of a token.
        let may_take_first = control.redis_now() >= published.absent_full_at && !shared.clock.is_manual();
        let first_takes = match may_take_first {
            true => self.limit.first_takes(published.terms.rests_as_number()),
            false => FirstTakes::Unlikely,
        };
        let enforced = published.mode(self.key()) == Mode::Enforce;
        let paused_until = if enforced { shared.pauses.until(self.name(), self.key()) } else { None };
        Context {
            now: shared.clock.now(),
            terms: &published.terms,
            epoch,
            trusted_until,
            deadline: shared.deadline_micros,
            round_trip: shared.round_trip.get(),
            daemon_alive: control.daemon_alive(),
            first_takes,
            redis,
            enforced,
            paused_until: paused_until.unwrap_or(0),
            hot: &self.hot,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic elsewhere, the state is at worst out of date.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `tokens` of answers that no task waited for at the instant `at`.
fn unwanted_of<W>(tokens: u64, at: Micros, client: &Handle) -> Event<W> {
    // They were granted within the deadline of their command.
    Event::Unwanted { tokens, since: at.saturating_sub(client.shared().deadline_micros) }
}

fn answer_of(answer: Answer, error: Option<&Error>, client: &Handle) -> Answered {
    match answer {
        Answer::Decided(decision) => Ok(decision),
        Answer::Overdue => Err(Error::DeadlineExceeded { deadline: client.shared().deadline }),
        Answer::Failed => Err(error.cloned().unwrap_or_else(Error::client_dropped)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of an `Arc`, the place in the cache and the allocator add some 50 bytes to an entry.
    #[test]
    fn a_bucket_at_rest_takes_little_memory_and_one_in_use_not_much() {
        let (at_rest, more) = (size_of::<BucketEntry>(), BucketState::<TaskWaiter>::size_of_use());
        println!("{at_rest} bytes at rest, {more} more in use");
        assert!(at_rest <= 112 && at_rest + more <= 360);
    }
}
