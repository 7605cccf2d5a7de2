//! What asks in the lane for those who want tokens of one bucket.

use std::sync::Arc;

use redis::RedisResult;
use topup_wire::{
    connection::is_elsewhere,
    lane::{Reply, Request},
    reply::{Settled, Verdict},
    scripts,
};

use super::{Outcome, Slot, State, flight::Sent};
use crate::{bucket::Bucket, client::Client, clock::Micros, error::Error, known::Asked};

/// What travels in the lane: the command is made when it is written.
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

// === impl Ticket ===

impl Ticket {
    /// A ticket for the flight number `flight` of `slot`, for whoever is there when it is made use of.
    pub(super) fn new(client: &Client, slot: &Arc<Slot>, flight: u32, since: Micros) -> Self {
        Self { client: client.clone(), slot: slot.clone(), flight, since, wanted: 0 }
    }

    /// Asks for all who are there, while nothing else is under way: what was asked, if anything.
    fn lead(&self, state: &mut State, out: &mut Vec<u8>) -> Option<Sent> {
        state.takers.close_up();
        state.waiters.close_up();
        let asked = state.asked(1, &self.client)?;
        let many = state.waiters.first().map(|first| first.count).filter(|count| *count > 1);
        let (aboard, ahead) = match many {
            Some(_) => ((1, 0), 0),
            None => ((state.waiters.singles(), state.takers.len()), self.slot.wish(state, asked)),
        };
        let wanted = many.unwrap_or((aboard.0 + aboard.1) as u64 + ahead);
        // All have left.
        if wanted == 0 && !state.unsettled {
            return None;
        }
        let bare = many.is_none() && state.may_decrement(wanted, asked, ahead > 0, &self.client);
        let Asked { sent: at, epoch, .. } = asked;
        let sent = Sent { at, epoch, several: many.is_some(), wanted, aboard, ahead, bare };
        if bare {
            state.place.as_ref()?.ask_decrement(out, wanted);
        } else {
            state.place.as_ref()?.ask(out, sent.operation());
            state.unsettled = false;
        }
        Some(sent)
    }

    /// Asks for those who are there behind the `first` flight, if the bucket is known to have enough for both.
    fn follow(&self, state: &mut State, first: Sent, out: &mut Vec<u8>) -> Option<Sent> {
        let asked = state.asked(1, &self.client)?;
        let behind = state.takers.len().checked_sub(first.aboard.1).filter(|takers| *takers > 0)?;
        if !state.plain() {
            return None;
        }
        let ahead = self.slot.wish(state, asked);
        let wanted = behind as u64 + ahead;
        let both = state.takers.len() as u64 + first.ahead + ahead;
        if !state.may_decrement(both, asked, ahead > 0, &self.client) {
            return None;
        }
        state.place.as_ref()?.ask_decrement(out, wanted);
        let Asked { sent: at, epoch, .. } = asked;
        Some(Sent { at, epoch, several: false, wanted, aboard: (0, behind), ahead, bare: true })
    }

    /// The flight, when its first taker has waited since before `overdue`.
    pub(crate) fn overdue(&self, overdue: Micros) -> Option<(Arc<Slot>, u32)> {
        (self.since <= overdue).then(|| (self.slot.clone(), self.flight))
    }

    /// Since when the first taker waits.
    pub(crate) fn since(&self) -> Micros {
        self.since
    }

    /// Asks once more, by itself: nothing was done, since the limit has changed, the script has to be sent, or the bucket is
    /// on another node, which is asked as the first was.
    fn again(self, elsewhere: bool) {
        let sent = {
            let state = self.slot.lock();
            let flight = state.flights.iter().find(|flight| flight.number == self.flight);
            flight.and_then(|flight| flight.sent)
        };
        let Some(sent @ Sent { wanted, bare, .. }) = sent else { return };
        let runtime = self.client.shared().runtime.clone();
        runtime.spawn(async move {
            let bucket = Bucket::of(&self.client, &self.slot);
            let outcome = if elsewhere && bare {
                bucket.within_deadline(bucket.decrement(wanted)).await.map(Outcome::Left)
            } else {
                bucket.within_deadline(bucket.settle(sent.operation())).await.map(Outcome::Settled)
            };
            self.slot.landed(self.flight, self.wanted, outcome, &self.client);
        });
    }
}

impl Request for Ticket {
    fn encode(&mut self, out: &mut Vec<u8>) -> bool {
        let mut held = self.slot.lock();
        let state = &mut *held;
        let Some(turn) = state.flights.iter().position(|flight| flight.number == self.flight) else {
            return false;
        };
        let sent = match state.flights[..turn].first().and_then(|first| first.sent) {
            Some(first) => self.follow(state, first, out),
            None => self.lead(state, out),
        };
        match sent {
            Some(sent) => state.flights[turn].sent = Some(sent),
            None => drop(state.flights.remove(turn)),
        }
        drop(held);
        self.wanted = sent.map_or(0, |sent| sent.wanted);
        sent.is_some()
    }

    fn complete(self, answer: RedisResult<Reply>) {
        let outcome = match answer {
            Ok(Reply::Number(left)) => Ok(Outcome::Left(left)),
            Ok(Reply::Numbers(numbers)) => {
                Settled::try_from(numbers).map(Outcome::Settled).map_err(|error| Error::Redis(error.into()))
            }
            // No command sent from here is answered so.
            Ok(Reply::Done | Reply::Nothing) => return self.again(false),
            Err(error) if scripts::is_not_loaded(&error) => return self.again(false),
            Err(error) if is_elsewhere(&error) => return self.again(true),
            Err(error) => Err(Error::Redis(error)),
        };
        match outcome {
            Ok(Outcome::Settled(settled))
                if matches!(settled.verdict, Verdict::Unknown | Verdict::ExceedsCapacity) =>
            {
                self.again(false)
            }
            outcome => self.slot.landed(self.flight, self.wanted, outcome, &self.client),
        }
    }
}
