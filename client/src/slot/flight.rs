//! A command under way for all who want tokens of one bucket.

use std::sync::Arc;

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    lane::{Reply, Request},
    reply::{Settled, Verdict},
    scripts,
};

use super::{Outcome, Slot, State, pending::give_back};
use crate::{
    bucket::Bucket,
    client::Client,
    clock::Micros,
    error::Error,
    known::{Asked, Denial, Known},
};

/// A command on its way, or about to be.
#[derive(Debug)]
pub(super) struct Flight {
    number: u32,
    /// For whom, once it has been sent.
    sent: Option<Sent>,
}

/// What a command asked for.
#[derive(Clone, Copy, Debug)]
struct Sent {
    asked: Asked,
    operation: Operation,
    /// How many waiters and takers it is for.
    aboard: (usize, usize),
    /// Tokens to be taken ahead.
    ahead: u64,
}

/// What travels in the lane.
#[derive(Debug)]
pub(crate) struct Ticket {
    client: Client,
    slot: Arc<Slot>,
    flight: u32,
    /// Since when the first of them waits.
    since: Micros,
    /// Tokens asked for.
    wanted: u64,
}

// === impl Slot ===

impl Slot {
    /// Goes on for those who are there: denies them, asks for them, or has someone look again later.
    pub(super) fn go_on(self: &Arc<Self>, state: &mut State, client: &Client) {
        let Some(asked) = state.asked(1, client) else { return self.launch(state, client) };
        if let Some(denial) = state.known.denial(asked) {
            state.deny(usize::MAX, denial);
            state.hungry = false;
        }
        state.deny_late_turns(asked);
        state.waiters.close_up();
        let first = state.waiters.first().map(|first| Asked { count: first.count, ..asked });
        match first.and_then(|first| state.known.denial(first)) {
            Some(denial) if state.takers.is_empty() && !state.hungry => {
                self.set_alarm(state, client, denial.wait)
            }
            _ => self.launch(state, client),
        }
    }

    /// Sends a command for everyone there, unless one is under way: they go with the next.
    pub(super) fn launch(self: &Arc<Self>, state: &mut State, client: &Client) {
        let nobody = state.takers.is_empty() && state.waiters.is_empty();
        if state.flight.is_some() || (nobody && !state.hungry && !state.unsettled) {
            return;
        }
        state.flights = state.flights.wrapping_add(1);
        let flight = state.flights;
        state.flight = Some(Flight { number: flight, sent: None });
        // A waiter may have waited for long, and for good reason: it is the command that must not take long.
        let since = state.takers.first().map_or_else(|| client.shared().clock.now(), |taker| taker.since);
        client.shared().lane.send(Ticket {
            client: client.clone(),
            slot: self.clone(),
            flight,
            since,
            wanted: 0,
        });
    }

    /// Gives up the flight `number`, and all who have waited since before `overdue`.
    pub(crate) fn expire(self: &Arc<Self>, number: u32, overdue: Micros, error: &Error, client: &Client) {
        let mut state = self.lock();
        let Some(flight) = state.flight.take_if(|flight| flight.number == number) else { return };
        let aboard = flight.sent.map_or((state.waiters.len(), state.takers.len()), |sent| sent.aboard);
        state.fail(aboard, error);
        // It may still be carried out, and then there is less than is known.
        state.known = Known::default();
        while state.takers.first().is_some_and(|taker| taker.since <= overdue) {
            state.fail((0, 1), error);
        }
        self.go_on(&mut state, client);
    }

    /// The flight `number`, which wanted so many tokens, has come to this.
    fn landed(self: &Arc<Self>, number: u32, wanted: u64, outcome: Result<Outcome, Error>, client: &Client) {
        let mut state = self.lock();
        state.unsettled |= matches!(outcome, Ok(Outcome::Left(..0)));
        let Some(Sent { asked, aboard, ahead, .. }) =
            state.flight.take_if(|flight| flight.number == number).and_then(|flight| flight.sent)
        else {
            self.launch(&mut state, client);
            drop(state);
            // Given up before the answer came.
            return give_back(client, self, outcome.map_or(0, |outcome| outcome.granted(wanted)));
        };
        let mut spare = 0;
        match outcome {
            Err(error) => {
                state.known = Known::default();
                state.fail(aboard, &error);
            }
            Ok(outcome) => {
                state.learn(outcome, asked, client.shared().clock.now());
                let unserved;
                (spare, unserved) = state.serve(aboard, outcome.granted(wanted), outcome);
                if let Outcome::Settled(settled) = &outcome {
                    state.deny(unserved, Denial::from(settled));
                }
            }
        }
        if ahead > 0 {
            spare -= self.lend(&mut state, spare.min(ahead), asked);
        }
        if spare > 0 {
            // Some have left, and others come.
            let others = (state.waiters.len(), state.takers.len());
            (spare, _) = state.serve(others, spare, Outcome::Left(0));
        }
        self.go_on(&mut state, client);
        drop(state);
        give_back(client, self, spare);
    }
}

// === impl Ticket ===

impl Ticket {
    /// The flight, when its first taker has waited since before `overdue`.
    pub(crate) fn overdue(&self, overdue: Micros) -> Option<(Arc<Slot>, u32)> {
        (self.since <= overdue).then(|| (self.slot.clone(), self.flight))
    }

    /// Since when the first taker waits.
    pub(crate) fn since(&self) -> Micros {
        self.since
    }

    /// Asks once more, by itself: nothing was done, since the limit has changed or the script has to be sent.
    fn again(self) {
        let operation = {
            let state = self.slot.lock();
            let flight = state.flight.as_ref().filter(|flight| flight.number == self.flight);
            flight.and_then(|flight| flight.sent).map(|sent| sent.operation)
        };
        let Some(operation) = operation else { return };
        let runtime = self.client.shared().runtime.clone();
        runtime.spawn(async move {
            let bucket = Bucket::of(&self.client, &self.slot);
            let outcome = bucket.within_deadline(bucket.settle(operation)).await.map(Outcome::Settled);
            self.slot.landed(self.flight, self.wanted, outcome, &self.client);
        });
    }
}

impl Request for Ticket {
    fn encode(&mut self, out: &mut Vec<u8>) -> bool {
        let mut guard = self.slot.lock();
        let state = &mut *guard;
        if state.flight.as_ref().is_none_or(|flight| flight.number != self.flight) {
            return false;
        }
        state.takers.close_up();
        state.waiters.close_up();
        let Some(mut asked) = state.asked(1, &self.client) else { return false };
        let many = state.waiters.first().map(|first| first.count).filter(|count| *count > 1);
        let (aboard, ahead) = match many {
            Some(_) => ((1, 0), 0),
            None => ((state.waiters.singles(), state.takers.len()), self.slot.wish(state, asked)),
        };
        let wanted = many.unwrap_or((aboard.0 + aboard.1) as u64 + ahead);
        let operation = match (many, wanted) {
            (Some(_), _) => Operation::Take(wanted),
            // All have left.
            (None, 0) if state.unsettled => Operation::Refund(0),
            (None, 0) => {
                state.flight = None;
                return false;
            }
            (None, _) => Operation::Share(wanted),
        };
        asked.count = many.unwrap_or(1);
        let Some(place) = &state.place else { return false };
        let counted = many.is_none() && place.published.is_counted() && place.is_current(asked.epoch);
        if counted
            && !state.unsettled
            && self.client.shared().watch.daemon_alive()
            && state.known.below_full(wanted, asked, ahead > 0)
        {
            place.ask_decrement(out, wanted);
        } else {
            place.ask(out, operation);
            state.unsettled = false;
        }
        state.flight =
            Some(Flight { number: self.flight, sent: Some(Sent { asked, operation, aboard, ahead }) });
        self.wanted = wanted;
        true
    }

    fn complete(self, answer: RedisResult<Reply>) {
        let outcome = match answer {
            Ok(Reply::Number(left)) => Ok(Outcome::Left(left)),
            Ok(Reply::Numbers(numbers)) => {
                Settled::try_from(numbers).map(Outcome::Settled).map_err(|error| Error::Redis(error.into()))
            }
            Err(error) if scripts::is_not_loaded(&error) => return self.again(),
            Err(error) => Err(Error::Redis(error)),
        };
        match outcome {
            Ok(Outcome::Settled(settled))
                if matches!(settled.verdict, Verdict::Unknown | Verdict::ExceedsCapacity) =>
            {
                self.again()
            }
            outcome => self.slot.landed(self.flight, self.wanted, outcome, &self.client),
        }
    }
}
