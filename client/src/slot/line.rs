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
    /// How long it waits for tokens that are not there.
    pub(super) until: Micros,
    /// It has been told of no denial yet.
    pub(super) fresh: bool,
    answer: oneshot::Sender<Result<Decision, Error>>,
}

/// Takers, the first first. Who comes when nobody is there, as most do where there are very many buckets, is found without
/// following a pointer.
#[derive(Debug, Default)]
pub(super) struct Line {
    single: Option<Taker>,
    /// Who came behind.
    #[allow(clippy::box_collection, reason = "most buckets never have any, and there are very many")]
    others: Option<Box<VecDeque<Taker>>>,
    /// Tokens they want together.
    tokens: u64,
}

// === impl Taker ===

impl Taker {
    pub(super) fn new<'b>(
        count: u64,
        since: Micros,
        until: Micros,
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
        if self.is_empty() {
            self.single = Some(taker);
        } else {
            self.others.get_or_insert_default().push_back(taker);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Taker> {
        let taker = self.single.take().or_else(|| self.others.as_mut()?.pop_front())?;
        self.tokens -= taker.count;
        Some(taker)
    }

    /// Takes the last out, to have it looked at.
    pub(super) fn pop_last(&mut self) -> Option<Taker> {
        let last = self.others.as_mut().and_then(|others| others.pop_back());
        let taker = last.or_else(|| self.single.take())?;
        self.tokens -= taker.count;
        Some(taker)
    }

    pub(super) fn first(&self) -> Option<&Taker> {
        self.single.as_ref().or_else(|| self.others.as_ref()?.front())
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.single.is_some()) + self.others.as_ref().map_or(0, |others| others.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.single.is_none() && self.others.as_ref().is_none_or(|others| others.is_empty())
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
        if self.tokens == self.len() as u64 {
            return self.len();
        }
        let all = self.single.iter().chain(self.others.iter().flat_map(|others| others.iter()));
        all.take_while(|taker| taker.count == 1).count()
    }
}
