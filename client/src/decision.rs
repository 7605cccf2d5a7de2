//! The answer to a take.

use std::time::Duration;

/// The answer to a take: a denial is an answer, not an error.
#[must_use = "a decision that nobody looks at limits nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tokens are yours.
    Allowed {
        /// Tokens left in the bucket.
        remaining: u64,
        /// The most the bucket holds.
        capacity: u64,
    },
    /// Go on, though the limit would have denied this had it been enforced: it, or this key of it, is in shadow.
    /// Nothing was taken.
    Shadowed {
        /// Tokens in the bucket, too few for this take.
        remaining: u64,
        /// The most the bucket holds.
        capacity: u64,
        /// What the wait would have been; [`Duration::MAX`] for a take of more than the bucket ever holds.
        retry_after: Duration,
    },
    /// Nothing was taken.
    Denied {
        /// Tokens in the bucket, too few for this take.
        remaining: u64,
        /// The most the bucket holds.
        capacity: u64,
        /// How long until the bucket has enough, if nobody else takes meanwhile.
        retry_after: Duration,
    },
}

// === impl Decision ===

impl Decision {
    /// Whether the caller may go on.
    pub const fn is_allowed(&self) -> bool {
        !matches!(self, Self::Denied { .. })
    }

    /// Whether the limit denies this, or would if it were enforced.
    pub const fn would_deny(&self) -> bool {
        !matches!(self, Self::Allowed { .. })
    }

    /// Tokens left in the bucket.
    pub const fn remaining(&self) -> u64 {
        match *self {
            Self::Allowed { remaining, .. }
            | Self::Shadowed { remaining, .. }
            | Self::Denied { remaining, .. } => remaining,
        }
    }

    /// The most the bucket holds.
    pub const fn capacity(&self) -> u64 {
        match *self {
            Self::Allowed { capacity, .. }
            | Self::Shadowed { capacity, .. }
            | Self::Denied { capacity, .. } => capacity,
        }
    }

    /// How long until a denied take would succeed, if nobody else takes meanwhile; `None` when allowed.
    pub const fn retry_after(&self) -> Option<Duration> {
        match *self {
            Self::Allowed { .. } | Self::Shadowed { .. } => None,
            Self::Denied { retry_after, .. } => Some(retry_after),
        }
    }
}
