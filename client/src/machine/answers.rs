//! What a step asks of the shell.

use super::{Command, Micros};
use crate::decision::Decision;

/// The answer to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bucket has decided.
    Decided(Decision),
    /// The command for this waiter failed.
    Failed,
    /// No answer came within the deadline.
    Overdue,
}

/// Tokens that nobody came for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// How many; none where a put-back of others only wants the full instant.
    pub tokens: u64,
    /// When the bucket is full, in µs of Redis `TIME`, if nobody else has taken since. With it, tokens go back only then.
    pub full_at: Option<u64>,
    /// Whether the tokens are lost where others have taken since, instead of put in when nobody has any in hand: leased
    /// tokens, of which there are many, again and again.
    pub or_lost: bool,
}

/// A correction of a bucket at rest, beside the commands that take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adjust {
    /// Tokens to give back: a take found too few.
    pub give: u64,
    /// The bucket is full so many µs later: the time of whole tokens.
    pub later: Micros,
    /// Keep the key until this instant of Redis `TIME`, in µs; 0: as it is.
    pub full_at: u64,
    /// Tokens that are in doubt unless this reaches the bucket that they were taken of.
    pub tokens: u64,
    /// When the bucket is full, as far as this worker knows. While the bucket's own instant is whole tokens apart from this,
    /// it is the same bucket: one that has been made anew begins at any µs.
    pub known_full_at: u64,
    /// Send it at once, before any dispatch of the same step; otherwise with the next write, or a ms later.
    pub soon: bool,
}

/// What a step asks of the shell.
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
    pub adjust: Option<Adjust>,
    /// Step with [`Event::Wake`](super::Event::Wake) then, at the latest.
    pub wake_at: Option<Micros>,
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
            adjust: None,
            wake_at: None,
        }
    }
}

impl<W> Actions<W> {
    /// Answers to waiters, in their order. Without allocation where there is one.
    pub fn answers(&mut self) -> impl Iterator<Item = (W, Answer)> + '_ {
        self.first.take().into_iter().chain(self.others.drain(..))
    }

    pub(super) fn answer(&mut self, waiter: W, answer: Answer) {
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some((waiter, answer));
        } else {
            self.others.push((waiter, answer));
        }
    }

    pub(super) fn adjust(&mut self, adjust: Adjust) {
        self.adjust = Some(adjust);
    }

    pub(super) fn put_back(&mut self, more: PutBack) {
        let tokens = more.tokens + self.put_back.map_or(0, |before| before.tokens);
        self.put_back = Some(PutBack { tokens, ..more });
    }
}
