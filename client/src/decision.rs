//! The answer to a take.

use std::time::Duration;

use topup_wire::limit::OnOutage;

use crate::outage::OutageReason;

/// The answer to a take. A denial is an answer, not an error.
///
/// # Examples
/// ```
/// # let decision = topup::Decision::Denied { remaining: 0, capacity: 10, retry_after: std::time::Duration::from_secs(1) };
/// match decision.retry_after() {
///     None => println!("go on, {} of {} tokens left", decision.remaining(), decision.capacity()),
///     Some(wait) => println!("denied, come back in {wait:?}"),
/// }
/// ```
#[must_use = "an unread decision limits nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The tokens were taken.
    Allowed {
        /// Tokens left in the bucket.
        remaining: u64,
        /// Most tokens in the bucket.
        capacity: u64,
    },
    /// Nothing was taken, and the caller may go on all the same. The limit is in shadow, for all keys or for this one, and
    /// would have denied the take.
    Shadowed {
        /// Tokens in the bucket, too few for this take.
        remaining: u64,
        /// Most tokens in the bucket.
        capacity: u64,
        /// Time that the denial would have named. [`Duration::MAX`] for a take of more tokens than the capacity.
        retry_after: Duration,
    },
    /// Nothing was taken.
    Denied {
        /// Tokens in the bucket, too few for this take.
        remaining: u64,
        /// Most tokens in the bucket.
        capacity: u64,
        /// Time until the bucket has enough tokens, to the µs, if no other caller takes meanwhile.
        retry_after: Duration,
    },
    /// Redis did not decide, so the outage policy did. No tokens were taken from the bucket in Redis.
    #[non_exhaustive]
    Degraded {
        /// Whether the caller may go on.
        allowed: bool,
        /// The reason why Redis did not decide.
        reason: OutageReason,
        /// The outage policy.
        on_outage: OnOutage,
        /// Time after which a denied caller tries again: until the local bucket has the tokens, or 1 s.
        retry_after: Duration,
    },
}

// === impl Decision ===

impl Decision {
    /// Whether the caller may go on.
    pub const fn is_allowed(&self) -> bool {
        !matches!(self, Self::Denied { .. } | Self::Degraded { allowed: false, .. })
    }

    /// Whether the limit denies the take, or would deny it if it were enforced.
    pub const fn would_deny(&self) -> bool {
        !matches!(self, Self::Allowed { .. } | Self::Degraded { allowed: true, .. })
    }

    /// Whether the outage policy decided in place of Redis.
    pub const fn is_degraded(&self) -> bool {
        matches!(self, Self::Degraded { .. })
    }

    /// Time until a denied take would succeed, if no other caller takes meanwhile; `None` when the caller may go on.
    pub const fn retry_after(&self) -> Option<Duration> {
        match *self {
            Self::Denied { retry_after, .. } | Self::Degraded { allowed: false, retry_after, .. } => {
                Some(retry_after)
            }
            _ => None,
        }
    }

    /// The wait after which a denied take may succeed. A policy that denies everything is not waited for.
    pub(crate) const fn worth_waiting_for(&self) -> Option<Duration> {
        match self {
            Self::Degraded { on_outage: OnOutage::Deny, .. } => None,
            _ => self.retry_after(),
        }
    }

    /// Tokens left in the bucket; 0 if Redis did not decide.
    pub const fn remaining(&self) -> u64 {
        match *self {
            Self::Allowed { remaining, .. }
            | Self::Shadowed { remaining, .. }
            | Self::Denied { remaining, .. } => remaining,
            Self::Degraded { .. } => 0,
        }
    }

    /// A denial with `remaining` tokens.
    pub(crate) const fn with_remaining(self, remaining: u64) -> Self {
        match self {
            Self::Denied { capacity, retry_after, .. } => Self::Denied { remaining, capacity, retry_after },
            other => other,
        }
    }

    /// Most tokens in the bucket; 0 if Redis did not decide.
    pub const fn capacity(&self) -> u64 {
        match *self {
            Self::Allowed { capacity, .. }
            | Self::Shadowed { capacity, .. }
            | Self::Denied { capacity, .. } => capacity,
            Self::Degraded { .. } => 0,
        }
    }
}
