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
/// A caller may come so early, in µs: less than what its own timer adds. The clocks may drift apart while its take is on the way.
const EARLY: Micros = 500;

// === impl World ===

impl World {
    pub(crate) fn local(&self, worker: usize) -> Micros {
        self.workers[worker].clock.at(self.now)
    }

    /// A caller asks.
    pub(crate) fn asks(&mut self, worker: usize, bucket: usize, ask: Ask, until: u64) {
        let (count, patience, as_told) = match ask {
            Ask::Take(count, patience) => (count, patience, None),
            Ask::AsTold(waited) => (1, 0, Some(waited)),
            Ask::PutIn(tokens) => return self.puts(worker, bucket, tokens),
            Ask::Charge(count) => return self.sends_charge(bucket, count),
        };
        let now = self.local(worker);
        if count == 1 && patience == 0 && self.at_once(worker, bucket, until, as_told) {
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
            as_told,
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
    fn at_once(&mut self, worker: usize, bucket: usize, until: u64, as_told: Option<bool>) -> bool {
        let now = self.local(worker);
        let late = if self.fault == Some(Fault::StockUnbounded) { 0 } else { now };
        let epoch = self.workers[worker].control.epoch;
        match self.workers[worker].entries[bucket].hot.spend(late, epoch) {
            Spent::Tokens(_, low) => {
                self.tell(bucket, || format!("worker {worker} spends a token in hand"));
                self.books[bucket].told += 1;
                self.counts.spent_in_hand += 1;
                self.workers[worker].entries[bucket].tell_of(1, None);
                self.note(bucket, Note::Admitted(1));
                self.asks_again(worker, bucket, until, as_told);
                if low && let Some(published) = self.workers[worker].published.clone() {
                    self.step(worker, bucket, Event::TakeAhead, &published, None);
                }
                true
            }
            Spent::Denied(denial) => {
                self.tell(bucket, || format!("worker {worker} denies from memory for {} µs", denial.wait));
                self.is_denied(worker, bucket, denial.wait, as_told);
                true
            }
            Spent::Nothing => false,
        }
    }

    /// A caller that was served asks again, if it is a task of a burst or does as told.
    fn asks_again(&mut self, worker: usize, bucket: usize, until: u64, as_told: Option<bool>) {
        let ask = match as_told {
            Some(_) if self.is_open() => Ask::AsTold(false),
            None if self.now < until => Ask::Take(1, 0),
            _ => return,
        };
        let after = self.dice.of(20..=1_000);
        self.push(self.now + after, Happening::Asks { worker, bucket, ask, until });
    }

    /// A caller is denied for `wait` µs. One that does as told comes back then.
    fn is_denied(&mut self, worker: usize, bucket: usize, wait: Micros, as_told: Option<bool>) {
        let Some(has_waited) = as_told else { return };
        if has_waited && wait > EARLY {
            self.breaks(bucket, Law::ToldTooEarly(wait));
        }
        if self.is_open() {
            let ask = Ask::AsTold(true);
            self.push(self.now + wait, Happening::Asks { worker, bucket, ask, until: 0 });
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
        let Call { worker, bucket, count, since, asked, patience, until, as_told, is_over, .. } =
            self.calls[id];
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
        if let Answer::Decided(decision) = answer
            && let Some(wait) = decision.retry_after()
        {
            self.is_denied(worker, bucket, wait.as_micros() as Micros, as_told);
        }
        if !allowed {
            return 0;
        }
        if self.plan.restless && self.dice.chance(1, 30) {
            let after = self.dice.of(0..=2_000);
            self.push(self.now + after, Happening::Unheard(id));
            return 0;
        }
        self.books[bucket].told += count;
        self.workers[worker].waited_for += if patience > 0 { count } else { 0 };
        let taken = taken.filter(|taken| taken.granted > 0);
        self.workers[worker].entries[bucket].tell_of(count, taken.map(|taken| taken.order));
        // Tokens of a command count from its execution on, but not before the caller came.
        let (at, order) = match taken {
            Some(Taken { at, order, .. }) if at >= asked => (at, order),
            Some(_) => (asked, self.next_order()),
            None => (self.now, self.next_order()),
        };
        self.books[bucket].notes.push((at, order, Note::Admitted(count)));
        self.asks_again(worker, bucket, until, as_told);
        0
    }
}
