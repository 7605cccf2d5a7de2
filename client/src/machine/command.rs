//! Commands for Redis and their replies, as the machine sees them.

use topup_wire::{bucket::Operation, reply::Settled};

use super::{Context, Micros, rest::granted_at_rest};

/// A command for one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `SET … PX … NX`: takes of a full bucket, and leaves it at rest.
    FirstTake {
        /// Tokens.
        count: u64,
        /// When the bucket is full after it, in µs of Redis `TIME`; 0: the key's expiry says that.
        full_at: u64,
    },
    /// `DECRBY` of a bucket at rest that is kept as a number.
    TakeAtRest {
        /// Tokens.
        count: u64,
        /// Before it, in the same write, a `SET … PX … NX` leaves an absent bucket at rest and full at this instant. 0: the
        /// bucket is known to have a key.
        first_at: u64,
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
    /// Of a decrement or a take at rest: the bucket has another form, and nothing was taken.
    NotCounting,
    /// Of a take at rest: when the bucket is full after it, in µs of Redis `TIME`.
    AtRest(u64),
    /// Of a take at rest: the bucket was at rest under other terms.
    OtherTerms,
    /// Of a take at rest: there was no bucket at rest, and nothing was taken.
    NotAtRest,
    /// Of a settle.
    Settled(Settled),
}

// === impl Command ===

impl Command {
    /// Tokens asked for.
    pub const fn wanted(&self) -> u64 {
        match *self {
            Self::FirstTake { count, .. } | Self::TakeAtRest { count, .. } => count,
            Self::Decrement { by } => by,
            Self::Settle { operation, .. } => match operation {
                Operation::Take(count) | Operation::Share(count) | Operation::Lease(count) => count,
                _ => 0,
            },
        }
    }

    /// Tokens that `reply` grants, of a command sent at `sent`.
    pub(super) fn granted(&self, reply: &Reply, sent: Micros, cx: &Context<'_>) -> u64 {
        match *reply {
            Reply::AtRest(full_at) => granted_at_rest(self.wanted(), full_at, sent, cx),
            Reply::First(true) => self.wanted(),
            Reply::First(false) | Reply::NotCounting | Reply::OtherTerms | Reply::NotAtRest => 0,
            Reply::Left(left) => self.wanted().saturating_sub(left.min(0).unsigned_abs()),
            Reply::Settled(settled) => settled.granted,
        }
    }
}
