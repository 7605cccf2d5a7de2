//! Commands for Redis and their replies, as the machine sees them.

use topup_wire::{bucket::Operation, reply::Settled};

/// A command for one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `SET … PX … NX`: takes of a full bucket, and leaves it at rest.
    FirstTake {
        /// Tokens.
        count: u64,
    },
    /// `DECRBY`: takes of a counting bucket.
    Decrement {
        /// Tokens.
        by: u64,
    },
    /// The settle script.
    Settle {
        /// What it does.
        operation: Operation,
        /// Whether the bucket may become counting.
        may_count: bool,
        /// Tokens taken by bare commands that may have run on a full bucket.
        doubt: u64,
    },
}

/// The reply to a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Of a first take: whether the bucket was full, and the tokens are taken.
    First(bool),
    /// Of a decrement: tokens left; below 0: so many too many were asked for.
    Left(i64),
    /// Of a decrement: the bucket is not counting, and nothing was taken.
    NotCounting,
    /// Of a settle.
    Settled(Settled),
}

// === impl Command ===

impl Command {
    /// Tokens asked for.
    pub(super) const fn wanted(&self) -> u64 {
        match *self {
            Self::FirstTake { count } => count,
            Self::Decrement { by } => by,
            Self::Settle { operation, .. } => match operation {
                Operation::Take(count) | Operation::Share(count) | Operation::Lease(count) => count,
                _ => 0,
            },
        }
    }

    /// Tokens that `reply` grants.
    pub(super) fn granted(&self, reply: &Reply) -> u64 {
        match *reply {
            Reply::First(true) => self.wanted(),
            Reply::First(false) | Reply::NotCounting => 0,
            Reply::Left(left) => self.wanted().saturating_sub(left.min(0).unsigned_abs()),
            Reply::Settled(settled) => settled.granted,
        }
    }
}
