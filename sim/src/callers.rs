//! Callers: their requests, and the answers.

use std::{cell::Cell, rc::Rc};

use topup::{
    Decision,
    machine::{Answer, Event, Micros, Spent},
};

use crate::{
    fault::Fault,
    in_flight::{Call, Taken},
    oracle::{Law, Note},
    plan::Ask,
    worker::{Caller, DEADLINE},
    world::{Happening, World},
};

/// A timer comes so much later than it should, at most: a ms of the wheel and one of the runtime, in µs.
const TIMER: Micros = 2_000;

// === impl World ===

impl World {
    pub(crate) fn local(&self, worker: usize) -> Micros {
        self.workers[worker].clock.at(self.now)
    }

    /// A caller asks.
    pub(crate) fn asks(&mut self, worker: usize, bucket: usize, ask: Ask, until: u64) {
        let (count, patience) = match ask {
            Ask::Take(count, patience) => (count, patience),
            Ask::PutIn(tokens) => return self.puts(worker, bucket, tokens),
            Ask::Charge(count) => return self.sends_charge(bucket, count),
        };
        let now = self.local(worker);
        if count == 1 && patience == 0 && self.at_once(worker, bucket, until) {
            return;
        }
        let id = self.calls.len();
        let left = Rc::new(Cell::new(false));
        let asked = self.now;
        self.calls.push(Call {
            worker,
            bucket,
            count,
            patience,
            asked,
            since: now,
            until,
            is_over: false,
            left,
        });
        if patience > 0 {
            self.push(self.now + patience, Happening::Leaves(id));
        } else if self.plan.restless && self.dice.chance(1, 20) {
            let after = self.dice.of(0..=5_000);
            self.push(self.now + after, Happening::Leaves(id));
        }
        if self.workers[worker].current().is_some() {
            self.takes(id);
        } else {
            self.workers[worker].reading.push(id);
            self.read(worker);
        }
    }

    /// Answers a take from the hot cell, as the shell does before it locks.
    fn at_once(&mut self, worker: usize, bucket: usize, until: u64) -> bool {
        let now = self.local(worker);
        let late = if self.fault == Some(Fault::StockUnbounded) { 0 } else { now };
        let epoch = self.workers[worker].control.epoch;
        match self.workers[worker].entries[bucket].hot.spend(late, epoch) {
            Spent::Token(_, low) => {
                self.tell(bucket, || format!("worker {worker} spends a token in hand"));
                self.books[bucket].told += 1;
                self.counts.spent_in_hand += 1;
                self.workers[worker].entries[bucket].tell_of(1, None);
                self.note(bucket, Note::Admitted(1));
                self.asks_again(worker, bucket, until);
                if low && let Some(published) = self.workers[worker].published.clone() {
                    self.step(worker, bucket, Event::TakeAhead, &published, None);
                }
                true
            }
            Spent::Denied(_) => true,
            Spent::Nothing => false,
        }
    }

    /// A task of a burst that was served asks again.
    fn asks_again(&mut self, worker: usize, bucket: usize, until: u64) {
        if self.now < until {
            let after = self.dice.of(20..=1_000);
            self.push(self.now + after, Happening::Asks { worker, bucket, ask: Ask::Take(1, 0), until });
        }
    }

    /// A call reaches its worker's machine.
    pub(crate) fn takes(&mut self, id: usize) {
        let Call { worker, bucket, count, patience, ref left, .. } = self.calls[id];
        let waiter = Caller { id, left: left.clone() };
        let now = self.local(worker);
        self.calls[id].since = now;
        let Some(published) = self.workers[worker].published.clone() else { return };
        if count > published.terms.capacity {
            // An error at once.
            self.calls[id].is_over = true;
            return;
        }
        let until = if patience > 0 { now + patience } else { 0 };
        self.tell(bucket, || {
            let waits =
                if patience > 0 { format!(", waiting {} ms", patience / 1_000) } else { String::new() };
            format!("worker {worker}: caller {id} asks for {count}{waits}")
        });
        self.step(worker, bucket, Event::Take { waiter, count, until }, &published, None);
    }

    /// A caller leaves: it has lost patience, or does not care.
    pub(crate) fn leaves(&mut self, id: usize) {
        let call = &mut self.calls[id];
        if !call.is_over {
            call.is_over = true;
            call.left.set(true);
            let (worker, bucket) = (call.worker, call.bucket);
            self.tell(bucket, || format!("worker {worker}: caller {id} leaves"));
        }
    }

    /// A caller that was granted tokens drops the answer unseen.
    pub(crate) fn unheard(&mut self, id: usize) {
        let Call { worker, bucket, count, since, .. } = self.calls[id];
        self.tell(bucket, || format!("worker {worker}: caller {id} never looked at its {count}"));
        if let Some(published) = self.workers[worker].published.clone() {
            self.step(worker, bucket, Event::Unwanted { tokens: count, since }, &published, None);
        }
    }

    /// Gives a caller its answer. Returns the tokens of a caller that has left.
    pub(crate) fn told(&mut self, caller: &Caller, answer: Answer, taken: Option<Taken>) -> u64 {
        let id = caller.id;
        let Call { worker, bucket, count, since, asked, patience, until, is_over, .. } = self.calls[id];
        let allowed = matches!(answer, Answer::Decided(Decision::Allowed { .. }));
        if is_over {
            return if allowed { count } else { 0 };
        }
        self.calls[id].is_over = true;
        let took = self.local(worker) - since;
        if patience == 0 && took > DEADLINE + TIMER {
            self.breaks(bucket, Law::Unanswered(Some(took)));
        }
        self.tell(bucket, || {
            let told = match answer {
                Answer::Decided(Decision::Allowed { remaining, .. }) => format!("allowed, {remaining} left"),
                Answer::Decided(denied) => {
                    format!("denied for {} µs", denied.retry_after().unwrap_or_default().as_micros())
                }
                Answer::Failed => "an error".to_owned(),
                Answer::Overdue => "overdue".to_owned(),
            };
            format!("worker {worker}: caller {id} is told: {told}")
        });
        if !allowed {
            return 0;
        }
        if self.plan.restless && self.dice.chance(1, 30) {
            let after = self.dice.of(0..=2_000);
            self.push(self.now + after, Happening::Unheard(id));
            return 0;
        }
        self.books[bucket].told += count;
        self.workers[worker].entries[bucket].tell_of(count, taken.map(|taken| taken.order));
        // Tokens of a command count from its execution on, but not before the caller came.
        let (at, order) = match taken {
            Some(Taken { at, order, .. }) if at >= asked => (at, order),
            Some(_) => (asked, self.next_order()),
            None => (self.now, self.next_order()),
        };
        self.books[bucket].notes.push((at, order, Note::Admitted(count)));
        self.asks_again(worker, bucket, until);
        0
    }
}
