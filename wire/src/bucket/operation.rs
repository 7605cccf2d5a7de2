//! Operations on a bucket.

/// An operation on a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take so many tokens, all or nothing.
    Take(u64),
    /// Tell the reply to a take of so many; change nothing.
    Peek(u64),
    /// Take up to so many tokens, one for each of several takes.
    Share(u64),
    /// A share whose reply is always all numbers.
    Lease(u64),
    /// Take up to so many tokens after their use, also of a bucket that has none: it is in debt then.
    Charge {
        /// Tokens.
        count: u64,
        /// The most debt after it. Windows, calendar quotas and buckets without catch-up have none.
        most_debt: u64,
    },
    /// Give so many tokens back, up to the capacity.
    Refund(u64),
    /// Fill the bucket.
    Reset,
    /// Take tokens ahead of time, all or nothing. They are good after a delay. Of a leaky bucket: once all earlier ones have
    /// leaked. Of a token bucket or GCRA: once they have come. Of any other bucket, it is a take.
    Reserve(Reservation),
}

/// A reservation of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Tokens.
    pub count: u64,
    /// The longest delay, in µs.
    pub longest: u64,
    /// The longest time in µs for which workers have tokens of the bucket in hand. Others that put tokens in wait for at
    /// least so long. A leaky bucket ignores it.
    pub in_hand_for: u64,
    /// The bucket forfeits the tokens of so many µs, and the reserved ones stay good for as much longer. A leaky bucket ignores it.
    pub forfeit: u64,
}

// === impl Operation ===

impl Operation {
    /// The operation as scripts name it, and its count.
    pub(crate) const fn as_args(self) -> (&'static str, u64) {
        match self {
            Self::Take(count) => ("take", count),
            Self::Peek(count) => ("peek", count),
            Self::Share(count) | Self::Lease(count) => ("share", count),
            Self::Refund(count) => ("refund", count),
            Self::Reset => ("reset", 0),
            Self::Reserve(Reservation { count, .. }) => ("reserve", count),
            Self::Charge { count, .. } => ("charge", count),
        }
    }

    /// Tokens that the operation takes of a bucket with enough.
    pub(crate) const fn takes(self) -> u64 {
        match self {
            Self::Take(count)
            | Self::Share(count)
            | Self::Lease(count)
            | Self::Reserve(Reservation { count, .. })
            | Self::Charge { count, .. } => count,
            Self::Peek(_) | Self::Refund(_) | Self::Reset => 0,
        }
    }

    /// The operation's number of tokens; 0 for a reset.
    pub const fn count(self) -> u64 {
        self.as_args().1
    }

    /// The longest delay of a reservation, in µs, or the most debt after a charge.
    pub(crate) const fn bound(self) -> Option<u64> {
        match self {
            Self::Reserve(Reservation { longest, .. }) => Some(longest),
            Self::Charge { most_debt, .. } => Some(most_debt),
            _ => None,
        }
    }
}
