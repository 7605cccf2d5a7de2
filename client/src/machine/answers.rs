//! Actions: the results of a step, for the shell to carry out.

use std::time::Duration;

use topup_wire::{
    bucket::Pace,
    scripts::{AtRestNumber, InDoubt, PutIn, are_whole_tokens},
};

use super::{Command, Micros, queue::Waiting};
use crate::decision::Decision;

/// The answer to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bucket has decided.
    Decided(Decision),
    /// The command for this waiter failed.
    Failed,
    /// No reply came within the deadline.
    Overdue,
}

/// Tokens that no caller got, to put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Tokens of a slow limit, whose buckets hardly fill meanwhile by themselves.
    pub tokens: u64,
    /// `tokens` were taken after this instant, in µs of Redis `TIME`. If a caller has put tokens in since, they are lost.
    pub since: u64,
    /// Tokens that go back if no other worker has taken since. Otherwise they are lost: the bucket may have been full
    /// meanwhile, and so many would come beyond its capacity.
    pub spare: u64,
    /// When the bucket is full, in µs of Redis `TIME`, if no other worker has taken since; `None` if unknown.
    pub full_at: Option<u64>,
}

/// A correction of a bucket at rest, beside the commands that take. Instants are in µs of Redis `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Puts back the tokens of a take that found too few.
    PutBack {
        /// Tokens of the take.
        tokens: u64,
        /// When the bucket is full after the take.
        full_at: u64,
    },
    /// Makes the bucket full later: a first take was carried out after the instant that it named.
    Later {
        /// Tokens of the first take.
        tokens: u64,
        /// The instant that it named.
        first_at: u64,
        /// Tokens by whose time the bucket is full later.
        by: u64,
        /// When the bucket is full after the correction. The key has to live until then.
        full_at: u64,
    },
    /// Has the key live until the bucket is full.
    Extend {
        /// Tokens of the take before.
        tokens: u64,
        /// When the bucket is full.
        full_at: u64,
        /// Sent at once, before any dispatch of the same step; otherwise with the next write, or 1 ms later.
        is_urgent: bool,
    },
}

/// Actions of one step.
#[derive(Debug)]
pub struct Actions<W> {
    first: Option<(W, Answer)>,
    others: Vec<(W, Answer)>,
    /// Write the command of this number when the pipeline is ready: [`Event::Ready`](super::Event::Ready) builds it.
    pub dispatch: Option<u32>,
    /// The command to write now.
    pub command: Option<Command>,
    /// Tokens to put back.
    pub put_back: Option<PutBack>,
    /// A correction to send.
    pub correction: Option<Correction>,
    /// The latest instant for a step with [`Event::Wake`](super::Event::Wake).
    pub wake_at: Option<Micros>,
    /// When the bucket's key has expired, if it was made in this step. Later takes may move that instant.
    pub expires_at: Option<Micros>,
}

// === impl PutBack ===

impl PutBack {
    /// Whether there is nothing to put back.
    pub const fn is_empty(&self) -> bool {
        self.tokens + self.spare == 0
    }

    /// The request to Redis, with `more` tokens of a caller; `None` fills the bucket. A worker may have tokens in hand for
    /// `in_hand_for`.
    pub fn request(self, more: Option<u64>, in_hand_for: Duration) -> PutIn {
        let Self { tokens, since, spare, full_at } = self;
        PutIn { tokens: more, unused: tokens, unused_since: since, spare, full_at, in_hand_for }
    }
}

// === impl Correction ===

impl Correction {
    /// Whether it is sent at once, before any dispatch of the same step; otherwise with the next write, or 1 ms later.
    pub const fn is_urgent(&self) -> bool {
        matches!(self, Self::Later { .. } | Self::Extend { is_urgent: true, .. })
    }

    /// Tokens to put back, and tokens by whose time the bucket is full later.
    pub const fn shift(&self) -> (u64, u64) {
        match *self {
            Self::PutBack { tokens, .. } => (tokens, 0),
            Self::Later { by, .. } => (0, by),
            Self::Extend { .. } => (0, 0),
        }
    }

    /// The instant until which the key has to live; 0 if its life stays as it is.
    pub const fn lives_until(&self) -> u64 {
        match *self {
            Self::PutBack { .. } => 0,
            Self::Later { full_at, .. } | Self::Extend { full_at, .. } => full_at,
        }
    }

    /// Tokens of the take that is corrected.
    pub const fn tokens(&self) -> u64 {
        match *self {
            Self::PutBack { tokens, .. } | Self::Later { tokens, .. } | Self::Extend { tokens, .. } => tokens,
        }
    }

    /// Tokens in doubt after `reply`, which says the value of the bucket; `None` for no reply. Returns `None` if the
    /// correction met the bucket it was meant for.
    pub fn in_doubt(&self, reply: Option<AtRestNumber>, pace: Pace) -> Option<InDoubt> {
        let in_doubt = |tokens, full_at| Some(InDoubt { tokens, full_at });
        let known = match *self {
            Self::PutBack { full_at, .. } | Self::Extend { full_at, .. } => full_at,
            Self::Later { first_at, .. } => first_at,
        };
        match (self, reply) {
            (_, Some(AtRestNumber::Full(full_at))) if are_whole_tokens(pace, full_at.abs_diff(known)) => None,
            // A put-back has overtaken the correction, and has written an expiry of its own.
            (Self::Extend { .. }, Some(AtRestNumber::Held(full_at)))
                if are_whole_tokens(pace, full_at.abs_diff(known)) =>
            {
                None
            }
            // A counter ignores the put-back. An absent bucket became a stray number, which a settle removes.
            (Self::PutBack { .. }, Some(AtRestNumber::NotAtRest)) => in_doubt(0, 0),
            // Refused or lost: the tokens are missing from the bucket, and no worker has them.
            (Self::PutBack { .. }, None) => None,
            // Before it came, a settle may have made a counter of the bucket.
            (Self::Extend { .. }, _) => in_doubt(self.tokens(), known),
            // Another bucket was given tokens, or a bucket is full too early.
            _ => in_doubt(self.tokens(), 0),
        }
    }
}

// === impl Actions ===

impl<W> Default for Actions<W> {
    fn default() -> Self {
        Self {
            first: None,
            others: Vec::new(),
            dispatch: None,
            command: None,
            put_back: None,
            correction: None,
            wake_at: None,
            expires_at: None,
        }
    }
}

impl<W> Actions<W> {
    /// Answers to waiters, in their order. One answer needs no allocation.
    pub fn answers(&mut self) -> impl Iterator<Item = (W, Answer)> + '_ {
        self.first.take().into_iter().chain(self.others.drain(..))
    }

    /// The number of answers.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    pub(super) fn answer(&mut self, waiter: W, answer: Answer) {
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some((waiter, answer));
        } else {
            self.others.push((waiter, answer));
        }
    }

    pub(super) fn answer_all(&mut self, waiting: Vec<Waiting<W>>, answer: Answer) {
        waiting.into_iter().for_each(|waiting| self.answer(waiting.waiter, answer));
    }

    /// Puts tokens back. Spare ones under two full instants are lost.
    pub(super) fn put_back(&mut self, more: PutBack) {
        let before = self.put_back.take().unwrap_or(PutBack { full_at: more.full_at, ..PutBack::default() });
        let tokens = before.tokens + more.tokens;
        let since = if before.tokens > 0 { before.since.min(more.since) } else { more.since };
        self.put_back = Some(if before.full_at == more.full_at {
            PutBack { tokens, since, spare: before.spare + more.spare, ..more }
        } else {
            PutBack { tokens, since, ..PutBack::default() }
        });
    }
}
