//! A step of a bucket's machine, and its actions: commands are sent, tasks are answered, the timer is set.

use std::sync::Arc;

use topup_wire::limit::Mode;

use super::{BucketEntry, Handle, PipelineRequest, Published, Shared, TaskWaiter};
use crate::{
    error::{Answered, Error},
    machine::{Actions, Answer, Command, Context, Event, FirstTakes, Micros, PutBack},
};

/// A reply for this many waiters answers some of them now, and the others once the next command is written. Otherwise all
/// of them would wait for Redis, and then Redis for all of them.
const BY_TURNS: usize = 64;

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
    /// Steps the machine and carries out its actions. `error` is the answer to waiters of a failed command.
    pub(crate) fn step(
        self: &Arc<Self>,
        event: Event<TaskWaiter>,
        client: &Handle,
        error: Option<&Error>,
    ) -> StepResult {
        // A bucket whose limit was never read has no waiters.
        let Some(published) = self.limit().last() else { return StepResult::default() };
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
            let context = self.context(published, shared);
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
        if let Some(at) = actions.expires_at {
            shared.expiry_queue.push(at, self);
        }
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

    /// Removes the prefetched tokens, good or not, to be put back.
    pub(super) fn take_prefetched(&self, shared: &Shared) -> Option<PutBack> {
        if self.hot.prefetched() == 0 {
            return None;
        }
        let published = self.limit().last()?;
        let mut actions = Actions::default();
        self.lock().machine.step(Event::PutsBack(0), &self.context(&published, shared), &mut actions);
        actions.put_back.filter(|put_back| !put_back.is_empty())
    }

    pub(super) fn context<'c>(&'c self, published: &'c Published, shared: &Shared) -> Context<'c> {
        let control = &shared.control;
        let epoch = self.limit().epoch(control.epoch());
        let trusted = published.epoch == epoch && !published.frozen;
        let redis = control.redis_time();
        let trusted_until =
            if trusted { published.terms.trusted_until(control.trusted_until(), redis) } else { 0 };
        let may_take_first =
            control.redis_now() >= published.absent_full_at && shared.clock.has_first_takes();
        let first_takes = match may_take_first {
            true => self.limit().first_takes(published.terms.rests_as_number()),
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
