//! Steps of workers' machines: their actions, and their timers.

use std::rc::Rc;

use topup::machine::{Actions, Answer, Command, Event, Micros, PutBack, RedisTime, Terms};

use crate::{
    fault::Fault,
    in_flight::Taken,
    read_limit::ReadLimit,
    worker::{Caller, DEADLINE},
    world::{Happening, World},
};

/// The results of a step beside its answers.
#[derive(Debug, Default)]
pub(crate) struct StepResult {
    pub(crate) command: Option<Command>,
    pub(crate) put_back: Option<PutBack>,
}

// === impl World ===

impl World {
    /// Steps a machine and carries out its actions. `taken` is the execution of the command whose tokens the event has.
    pub(crate) fn step(
        &mut self,
        worker: usize,
        bucket: usize,
        event: Event<Caller>,
        published: &Rc<ReadLimit>,
        taken: Option<Taken>,
    ) -> StepResult {
        let mut outcome = StepResult::default();
        let mut event = Some(event);
        while let Some(next) = event.take() {
            let puts_back = matches!(next, Event::PutsBack(_));
            let mut actions = Actions::default();
            self.step_once(worker, bucket, next, published, &mut actions);
            if let Some(adjust) = actions.correction.take() {
                self.adjusts(worker, bucket, adjust, taken);
            }
            if let Some(number) = actions.dispatch {
                let (from, to) = self.plan.network.pipeline;
                let at = self.now + self.delays.of(from..=to);
                self.push(at, Happening::Ready { worker, bucket, number });
            }
            outcome.command = actions.command.or(outcome.command);
            match actions.put_back {
                put_back if puts_back => outcome.put_back = put_back,
                Some(put_back) if !put_back.is_empty() => self.returns(worker, bucket, put_back),
                _ => {}
            }
            let answers: Vec<(Caller, Answer)> = actions.answers().collect();
            let unwanted: u64 =
                answers.into_iter().map(|(caller, answer)| self.told(&caller, answer, taken)).sum();
            if unwanted > 0 {
                let since = self.local(worker).saturating_sub(DEADLINE);
                event = Some(Event::Unwanted { tokens: unwanted, since });
            }
        }
        outcome
    }

    fn step_once(
        &mut self,
        worker: usize,
        bucket: usize,
        event: Event<Caller>,
        published: &Rc<ReadLimit>,
        actions: &mut Actions<Caller>,
    ) {
        let now = self.local(worker);
        let fault = self.fault;
        let it = &mut self.workers[worker];
        if matches!(event, Event::Wake) {
            it.entries[bucket].armed_at = 0;
        }
        let (machine, mut context) = it.surroundings(bucket, published, now);
        match fault {
            Some(Fault::DeadlineAnew) => context.deadline = DEADLINE + 50_000,
            Some(Fault::TrustForever) => (context.trusted_until, context.daemon_alive) = (Micros::MAX, true),
            Some(Fault::OffsetWrong) => context.redis = half_a_token_ahead(context.redis, context.terms),
            _ => {}
        }
        machine.step(event, &context, actions);
        let entry = &mut it.entries[bucket];
        if let Some(at) = actions.wake_at.filter(|at| entry.armed_at == 0 || *at < entry.armed_at) {
            entry.armed_at = at;
            it.timers.arm(at, bucket);
            self.look_in_time(worker);
        }
    }

    /// Has the worker's timers looked at when the first is due.
    fn look_in_time(&mut self, worker: usize) {
        let it = &mut self.workers[worker];
        let Some(due) = it.timers.due_at() else { return };
        let at = it.clock.run(due).max(self.now);
        if it.looks_at.is_none_or(|looks_at| at < looks_at) {
            it.looks_at = Some(at);
            self.push(at, Happening::Looks(worker));
        }
    }

    /// A worker looks at its timers.
    pub(crate) fn looks(&mut self, worker: usize) {
        if self.workers[worker].looks_at != Some(self.now) {
            return;
        }
        self.workers[worker].looks_at = None;
        let mut due = Vec::new();
        let now = self.local(worker);
        self.workers[worker].timers.take_due(now, &mut due);
        for bucket in due {
            if let Some(published) = self.workers[worker].published.clone() {
                self.step(worker, bucket, Event::Wake, &published, None);
            }
        }
        self.look_in_time(worker);
    }
}

/// The time of Redis as a planted fault has it.
fn half_a_token_ahead(redis: RedisTime, terms: &Terms) -> RedisTime {
    let [least, most, heard_at] = redis.parts();
    let half = terms.pace.p / (2 * terms.pace.n);
    RedisTime::from([least.saturating_add(half), most.saturating_add(half), heard_at])
}
