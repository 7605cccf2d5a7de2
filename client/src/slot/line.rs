//! A line of takers, each in turn.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use super::{Pending, Slot};
use crate::{client::Client, clock::Micros, decision::Decision, error::Error};

/// Someone who wants tokens.
#[derive(Debug)]
pub(super) struct Taker {
    pub(super) count: u64,
    pub(super) since: Micros,
    /// How long it waits for tokens that are not there; without, not at all.
    pub(super) until: Option<Micros>,
    /// It has been told of no denial yet.
    pub(super) fresh: bool,
    answer: oneshot::Sender<Result<Decision, Error>>,
}

/// Takers, the first first.
#[derive(Debug, Default)]
pub(super) struct Line {
    takers: VecDeque<Taker>,
    /// Tokens they want together.
    tokens: u64,
}

// === impl Taker ===

impl Taker {
    pub(super) fn new<'b>(
        count: u64,
        since: Micros,
        until: Option<Micros>,
        client: &'b Client,
        slot: &'b Arc<Slot>,
    ) -> (Self, Pending<'b>) {
        let (answer, receiver) = oneshot::channel();
        (Self { count, since, until, fresh: true, answer }, Pending::new(receiver, count, client, slot))
    }

    /// Tells the answer: whether anyone was there to hear it.
    pub(super) fn tell(self, answer: Result<Decision, Error>) -> bool {
        self.answer.send(answer).is_ok()
    }

    fn has_left(&self) -> bool {
        self.answer.is_closed()
    }
}

// === impl Line ===

impl Line {
    pub(super) fn push(&mut self, taker: Taker) {
        self.tokens += taker.count;
        self.takers.push_back(taker);
    }

    pub(super) fn pop(&mut self) -> Option<Taker> {
        let taker = self.takers.pop_front()?;
        self.tokens -= taker.count;
        Some(taker)
    }

    /// Takes the last out, to have it looked at.
    pub(super) fn pop_last(&mut self) -> Option<Taker> {
        let taker = self.takers.pop_back()?;
        self.tokens -= taker.count;
        Some(taker)
    }

    pub(super) fn first(&self) -> Option<&Taker> {
        self.takers.front()
    }

    pub(super) fn len(&self) -> usize {
        self.takers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.takers.is_empty()
    }

    /// Tokens all of them want together.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Lets go of those at the front who have left.
    pub(super) fn close_up(&mut self) {
        while self.first().is_some_and(Taker::has_left) {
            self.pop();
        }
    }

    /// How many at the front want one token each.
    pub(super) fn singles(&self) -> usize {
        if self.tokens == self.takers.len() as u64 {
            return self.takers.len();
        }
        self.takers.iter().take_while(|taker| taker.count == 1).count()
    }
}
