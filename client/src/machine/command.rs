//! Commands to Redis and their replies, for the machine.

use topup_wire::{
    bucket::{Operation, Reservation},
    reply::Settled,
    scripts::{InDoubt, WindowEnd},
};

use super::{Context, Micros};

/// A command for one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `SET … PX … NX`: takes from a full bucket, and leaves it at rest.
    FirstTake {
        /// Tokens.
        count: u64,
        /// When the bucket is full after it, in µs of Redis `TIME`. With 0, the key's expiry says so.
        full_at: u64,
    },
    /// `DECRBY` of a bucket at rest that is kept as a number.
    TakeAtRest {
        /// Tokens.
        count: u64,
        /// A `SET … PX … NX` before it, in the same write, leaves an absent bucket at rest. The bucket is full at this
        /// instant, in µs of Redis `TIME`. With 0 there is no `SET`, since the bucket has a key.
        first_at: u64,
    },
    /// `DECRBY`: takes from a counting bucket.
    Decrement {
        /// Tokens.
        by: u64,
        /// The bucket is certainly below full until then, by the worker's clock. If the reply is read later, tokens are in
        /// doubt.
        below_full_until: Micros,
        /// The bucket cannot have begun to count anew until then. If the reply is read later, all tokens are in doubt.
        counting_until: Micros,
    },
    /// `INCRBY` in a fixed window, which counts tokens taken.
    TakeInWindow {
        /// Tokens.
        count: u64,
        /// A `SET … NX` before it, in the same write, begins a window that ends then. `None` if one is under way, or if its
        /// end is unknown.
        begins: Option<WindowEnd>,
    },
    /// The settle script.
    Settle {
        /// The operation.
        operation: Operation,
        /// Whether the bucket may become counting.
        may_count: bool,
        /// Tokens that the bucket may not miss. In a fixed window, tokens that it has counted, though they were not left.
        in_doubt: Option<InDoubt>,
    },
}

/// The reply to a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The reply to a first take: whether the bucket was full, so that the tokens are taken.
    First(bool),
    /// The reply to a decrement: tokens left. Below 0, the tokens that were missing.
    Left(i64),
    /// The reply to a take in a window.
    InWindow {
        /// Tokens left. Below 0, the tokens that were missing.
        left: i64,
        /// Whether a `SET` before it has begun the window.
        was_set: bool,
    },
    /// The bucket has another form than a decrement or a take at rest expects. Nothing was taken.
    NotCounting,
    /// The reply to a take at rest.
    AtRest {
        /// When the bucket is full after it, in µs of Redis `TIME`.
        full_at: u64,
        /// Whether the bucket had no key before it.
        was_full: bool,
    },
    /// A take at rest met a bucket at rest under other terms.
    OtherTerms,
    /// A take at rest met no bucket at rest. Nothing was taken.
    NotAtRest,
    /// The reply to a settle.
    Settled(Settled),
}

// === impl Command ===

impl Command {
    /// Tokens asked for.
    pub const fn count(&self) -> u64 {
        match *self {
            Self::FirstTake { count, .. }
            | Self::TakeAtRest { count, .. }
            | Self::TakeInWindow { count, .. } => count,
            Self::Decrement { by, .. } => by,
            Self::Settle { operation, .. } => match operation {
                Operation::Take(count)
                | Operation::Share(count)
                | Operation::Lease(count)
                | Operation::Reserve(Reservation { count, .. }) => count,
                _ => 0,
            },
        }
    }

    /// Tokens that `reply` grants. The command was sent at `sent`.
    pub(super) fn granted(&self, reply: &Reply, sent: Micros, cx: &Context<'_>) -> u64 {
        match *reply {
            Reply::AtRest { full_at, .. } => {
                let granted = cx.terms.grants_at_rest(self.count(), full_at, cx.redis.earliest(sent));
                if granted { self.count() } else { 0 }
            }
            Reply::First(true) => self.count(),
            Reply::First(false) | Reply::NotCounting | Reply::OtherTerms | Reply::NotAtRest => 0,
            Reply::Left(left) | Reply::InWindow { left, .. } => {
                self.count().saturating_sub(left.min(0).unsigned_abs())
            }
            Reply::Settled(settled) => settled.granted,
        }
    }
}
