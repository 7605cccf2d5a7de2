//! What came of a command, and who is served by it.

use std::time::Duration;

use topup_wire::reply::Settled;

use super::{State, line::Taker};
use crate::{
    clock::Micros,
    decision::Decision,
    error::Error,
    known::{Asked, Denial, Known},
};

/// What came of a command for takers of one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// Tokens left after a `DECRBY`.
    Left(i64),
    /// What the script gave.
    Settled(Settled),
}

// === impl Outcome ===

impl Outcome {
    /// How many of the `wanted` tokens were taken.
    pub(super) fn granted(&self, wanted: u64) -> u64 {
        match *self {
            // In debt, the bucket had as many fewer to give.
            Self::Left(left) => wanted.saturating_sub(left.min(0).unsigned_abs()),
            Self::Settled(settled) => settled.granted,
        }
    }

    /// The same, of a bucket of which so many tokens are in hand as well.
    pub(super) fn and(self, in_hand: u64) -> Self {
        match self {
            Self::Left(left @ 0..) => Self::Left(left.saturating_add_unsigned(in_hand)),
            Self::Left(debt) => Self::Left(debt),
            Self::Settled(settled) => {
                Self::Settled(Settled { tokens: settled.tokens.saturating_add(in_hand), ..settled })
            }
        }
    }
}

// === impl State ===

impl State {
    /// Learns from `outcome`, here since `received`, of a command for so many tokens.
    pub(super) fn learn(&mut self, outcome: Outcome, wanted: u64, asked: Asked, received: Micros) {
        match outcome {
            Outcome::Left(left) => match u64::try_from(left) {
                Ok(tokens) => self.known.taken(tokens, wanted, asked, received),
                // It was empty, or has become full on the way: the script says which.
                Err(_) => self.known = Known::default(),
            },
            Outcome::Settled(settled) => self.known = Known::learned(&settled, asked, received),
        }
    }

    /// Lets the first of those who asked go, as far as `granted` tokens do: the tokens nobody took, and how many takers
    /// are left who asked.
    pub(super) fn serve(&mut self, asked: (usize, usize), granted: u64, outcome: Outcome) -> (u64, usize) {
        let (left, capacity) = match outcome {
            Outcome::Left(left) => (u64::try_from(left).unwrap_or(0), self.known.capacity()),
            Outcome::Settled(settled) => (settled.tokens, settled.capacity),
        };
        let mut spare = granted;
        let allow = |taker: Taker, spare: &mut u64| {
            let (count, remaining) = (taker.count, left + (*spare - taker.count));
            if taker.tell(Ok(Decision::Allowed { remaining, capacity })) {
                *spare -= count;
            }
        };
        let mut left_over = [asked.0, asked.1];
        for (line, left_over) in [&mut self.waiters, &mut self.takers].into_iter().zip(&mut left_over) {
            while *left_over > 0 && line.first().is_some_and(|taker| taker.count <= spare) {
                line.pop().into_iter().for_each(|taker| allow(taker, &mut spare));
                *left_over -= 1;
            }
        }
        (spare, left_over[1])
    }

    /// Tells the first `takers` of those who want tokens now that there are none.
    pub(super) fn deny(&mut self, takers: usize, denial: Denial) {
        for taker in (0..takers).map_while(|_| self.takers.pop()) {
            taker.tell(Ok(denial.into()));
        }
    }

    /// When it is the turn of someone who wants tokens behind others, if that is known.
    pub(super) fn turn(&self, ahead: u64, asked: Asked) -> Option<Denial> {
        if ahead == 0 {
            return self.known.denial(asked);
        }
        let denial = self.known.denial(Asked { count: 1, ..asked })?;
        let more = asked.terms.time_of(ahead.saturating_add(asked.count - 1));
        Some(Denial { wait: denial.wait.saturating_add(more), ..denial })
    }

    /// Tells those who have come since the last denial and whose turn comes too late for them.
    pub(super) fn deny_late_turns(&mut self, asked: Asked) {
        let first = self.waiters.first().map_or(1, |first| first.count);
        if [1, first].iter().all(|count| self.known.denial(Asked { count: *count, ..asked }).is_none()) {
            return;
        }
        let mut stay = Vec::new();
        while let Some(mut taker) = self.waiters.pop_last() {
            if !taker.fresh {
                self.waiters.push(taker);
                break;
            }
            let ahead = self.waiters.tokens();
            match self.turn(ahead, Asked { count: taker.count, ..asked }) {
                None => stay.push(taker),
                Some(denial)
                    if taker.until.is_some_and(|until| asked.sent.saturating_add(denial.wait) > until) =>
                {
                    taker.tell(Ok(denial.into()));
                }
                Some(_) => {
                    taker.fresh = false;
                    stay.push(taker);
                }
            }
        }
        stay.into_iter().rev().for_each(|taker| self.waiters.push(taker));
    }

    /// Tells the first of those who asked that there is no answer.
    pub(super) fn fail(&mut self, asked: (usize, usize), error: &Error) {
        for (line, asked) in [(&mut self.waiters, asked.0), (&mut self.takers, asked.1)] {
            for taker in (0..asked).map_while(|_| line.pop()) {
                taker.tell(Err(error.clone()));
            }
        }
    }
}

// === impl Decision ===

impl From<Denial> for Decision {
    fn from(denial: Denial) -> Self {
        let Denial { tokens: remaining, capacity, wait } = denial;
        Self::Denied { remaining, capacity, retry_after: Duration::from_micros(wait) }
    }
}
