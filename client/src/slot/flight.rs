//! A command under way for all who want tokens of one bucket.

use std::sync::Arc;

use topup_wire::bucket::Operation;

use super::{Held, Outcome, Slot, State, Ticket, pending::give_back};
use crate::{
    client::Client,
    clock::Micros,
    error::Error,
    known::{Asked, Denial, Known},
    published::Place,
};

/// Of a crowd for one bucket, so many takers are served in one go, and so many are reason enough for a second command:
/// while those who have been served ask again, Redis works. Without, client and Redis take turns.
pub(super) const CROWD: usize = 32;

/// A command on its way, or about to be.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) number: u32,
    /// For whom, once it has been sent.
    pub(super) sent: Option<Sent>,
    /// What it has brought, while a crowd is being served.
    landed: Option<Landed>,
}

/// What a command asked for, of the bucket where it was then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Micros,
    pub(super) epoch: u64,
    /// By one who wants several, all or nothing.
    pub(super) several: bool,
    /// Tokens in all.
    pub(super) wanted: u64,
    /// How many waiters and takers it is for.
    pub(super) aboard: (usize, usize),
    /// Tokens to be taken ahead.
    pub(super) ahead: u64,
    /// By a bare command.
    pub(super) bare: bool,
}

/// Tokens left in the bucket after a command that had one for everyone aboard, and those nobody took.
#[derive(Clone, Copy, Debug)]
struct Landed {
    left: i64,
    spare: u64,
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

    /// Sends a command for everyone there, unless one is under way that others wait for too: they go with the next.
    pub(super) fn launch(self: &Arc<Self>, state: &mut State, client: &Client) {
        let nobody = state.takers.is_empty() && state.waiters.is_empty();
        let free = match &state.flights[..] {
            [] => !nobody || state.hungry || state.unsettled,
            [flight] => flight
                .sent
                .as_ref()
                .is_some_and(|first| state.takers.len() >= first.aboard.1 + CROWD && state.plain()),
            _ => false,
        };
        if !free {
            return;
        }
        state.flown = state.flown.wrapping_add(1);
        let flight = state.flown;
        state.flights.push(Box::new(Flight { number: flight, sent: None, landed: None }));
        // A waiter may have waited for long, and for good reason: it is the command that must not take long.
        let since = state.takers.first().map_or_else(|| client.shared().clock.now(), |taker| taker.since);
        // Without a place there is nothing to ask, whoever would be asked.
        let slot = state.place.as_ref().map_or_else(Default::default, |place| place.keys().slot);
        client.shared().lanes.send(slot, Ticket::new(client, self, flight, since));
    }

    /// Gives up the flight `number`, and all who have waited since before `overdue`.
    pub(crate) fn expire(self: &Arc<Self>, number: u32, overdue: Micros, error: &Error, client: &Client) {
        let mut state = self.lock();
        let spare = state.unload_before(number, self.lease.left());
        let Some(flight) = state.arrived(number) else { return self.clear(state, spare, client) };
        let aboard = flight.sent.map_or((state.waiters.len(), state.takers.len()), |sent| sent.aboard);
        state.fail(aboard, error);
        // It may still be carried out, and then there is less than is known.
        state.known = Known::default();
        while state.takers.first().is_some_and(|taker| taker.since <= overdue) {
            state.fail((0, 1), error);
        }
        self.clear(state, spare, client);
    }

    /// The flight `number`, which wanted so many tokens, has come to this.
    pub(super) fn landed(
        self: &Arc<Self>,
        number: u32,
        wanted: u64,
        outcome: Result<Outcome, Error>,
        client: &Client,
    ) {
        let mut state = self.lock();
        state.unsettled |= matches!(outcome, Ok(Outcome::Left(..0)));
        // Those who came first are served first.
        let mut spare = state.unload_before(number, self.lease.left());
        if let Ok(Outcome::Left(left @ 0..)) = outcome
            && let Some(flight) = state.flights.iter_mut().find(|flight| flight.number == number)
            && let Some(sent @ Sent { aboard: (0, CROWD..), ahead: 0, .. }) = flight.sent
        {
            flight.landed = Some(Landed { left, spare });
            if let Some(asked) = state.asked_then(sent) {
                state.learn(Outcome::Left(left), wanted, asked, client.shared().clock.now());
            }
            state.serve_some(number, self.lease.left());
            client.shared().runtime.spawn(self.clone().unload(number, client.clone()));
            return;
        }
        let sent = state.arrived(number).and_then(|flight| flight.sent);
        let Some((Sent { aboard, ahead, .. }, asked)) =
            sent.and_then(|sent| Some((sent, state.asked_then(sent)?)))
        else {
            // Given up before the answer came.
            spare += outcome.map_or(0, |outcome| outcome.granted(wanted));
            return self.clear(state, spare, client);
        };
        match outcome {
            Err(error) => {
                state.known = Known::default();
                state.fail(aboard, &error);
            }
            Ok(outcome) => {
                state.learn(outcome, wanted, asked, client.shared().clock.now());
                let granted = outcome.granted(wanted);
                let (nobodys, unserved) = state.serve(aboard, granted, outcome.and(self.lease.left()));
                spare += nobodys;
                if let Outcome::Settled(settled) = &outcome {
                    state.deny(unserved, Denial::from(settled));
                }
            }
        }
        if ahead > 0 {
            // Who has come meanwhile need not wait for the next one.
            let others = (state.waiters.len(), state.takers.len());
            let left = Outcome::Left(state.known.tokens() as i64).and(self.lease.left());
            (spare, _) = state.serve(others, spare, left);
            spare -= self.lend(&mut state, spare.min(ahead), asked, client);
        }
        self.clear(state, spare, client);
    }

    /// Serves those whom the flight `number` has brought tokens for, a crowd at a time.
    async fn unload(self: Arc<Self>, number: u32, client: Client) {
        loop {
            tokio::task::yield_now().await;
            let mut state = self.lock();
            match state.serve_some(number, self.lease.left()) {
                Some(0) => {
                    let landed = state.arrived(number).and_then(|flight| flight.landed);
                    return self.clear(state, landed.map_or(0, |landed| landed.spare), &client);
                }
                Some(_) => self.launch(&mut state, &client),
                // The next one has landed, and all aboard this one were served then.
                None => return,
            }
        }
    }

    /// Ends a flight that has brought `spare` tokens too many: some have left, and others come.
    fn clear(self: &Arc<Self>, mut state: Held<'_>, mut spare: u64, client: &Client) {
        if spare > 0 {
            let others = (state.waiters.len(), state.takers.len());
            (spare, _) = state.serve(others, spare, Outcome::Left(0));
        }
        self.go_on(&mut state, client);
        drop(state);
        give_back(client, self, spare);
    }
}

// === impl Sent ===

impl Sent {
    pub(super) fn operation(&self) -> Operation {
        match (self.several, self.wanted) {
            (true, wanted) => Operation::Take(wanted),
            // All have left: what is to be done is to settle the bucket.
            (false, 0) => Operation::Refund(0),
            (false, wanted) => Operation::Share(wanted),
        }
    }
}

// === impl State ===

impl State {
    /// The question that a command was, of the bucket as it is now.
    fn asked_then(&self, sent: Sent) -> Option<Asked> {
        let terms = self.place.as_ref()?.published.terms;
        let Sent { at, epoch, several, wanted, .. } = sent;
        Some(Asked { count: if several { wanted } else { 1 }, sent: at, terms, epoch })
    }

    /// The flight `number`, which is under way no longer.
    fn arrived(&mut self, number: u32) -> Option<Box<Flight>> {
        self.flights.iter().position(|flight| flight.number == number).map(|i| self.flights.remove(i))
    }

    /// Serves some of those aboard the flight `number`, which has landed: how many are left.
    fn serve_some(&mut self, number: u32, in_hand: u64) -> Option<usize> {
        let turn = self.flights.iter().position(|flight| flight.number == number)?;
        let flight = &mut self.flights[turn];
        let (sent, landed) = (flight.sent.as_mut()?, flight.landed?);
        let served = sent.aboard.1.min(CROWD);
        sent.aboard.1 -= served;
        let rest = sent.aboard.1;
        let left = Outcome::Left(landed.left.saturating_add_unsigned(rest as u64));
        let (spare, _) = self.serve((0, served), served as u64, left.and(in_hand));
        if let Some(landed) = &mut self.flights[turn].landed {
            landed.spare += spare;
        }
        Some(rest)
    }

    /// Serves all aboard a flight that has landed before the flight `number`: the tokens nobody took.
    fn unload_before(&mut self, number: u32, in_hand: u64) -> u64 {
        let landed = self.flights.iter().find(|flight| flight.number != number && flight.landed.is_some());
        let Some(before) = landed.map(|flight| flight.number) else { return 0 };
        while self.serve_some(before, in_hand).is_some_and(|rest| rest > 0) {}
        self.arrived(before).and_then(|flight| flight.landed).map_or(0, |landed| landed.spare)
    }

    /// Whether nothing is wanted but a token each, now.
    pub(super) fn plain(&self) -> bool {
        let leased = self.place.as_ref().is_none_or(|place| place.published.limit.lease.is_some());
        self.waiters.is_empty() && !self.unsettled && !leased
    }

    /// Whether `takes` bare ones are right.
    pub(super) fn may_decrement(&self, takes: u64, asked: Asked, ahead: bool, client: &Client) -> bool {
        let counted = |place: &Place| place.published.is_counted() && place.is_current(asked.epoch);
        self.place.as_ref().is_some_and(counted)
            && !self.unsettled
            && client.shared().watch.daemon_alive()
            && self.known.below_full(takes, asked, ahead)
    }
}
