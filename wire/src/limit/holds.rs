//! Holds of a limit: tokens that are taken at an estimate and settled at what was used.

use std::time::Duration;

use super::{MAX_TOKENS, words::words};

/// The debt that charges may leave, and the fate of holds that nobody settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    max_debt: u64,
    on_abandon: OnAbandon,
    ttl: Duration,
}

/// The fate of the tokens of a hold that was dropped, or whose holder died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnAbandon {
    /// They stay taken: the estimate is charged.
    #[default]
    Charge,
    /// They are put back. Redis keeps each open hold until then.
    Refund,
}

words!(OnAbandon: Charge = "charge", Refund = "refund");

/// Why there are no such holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldsError {
    /// More than 2^53 tokens.
    #[error("a debt is of 0 to 9007199254740992 (2^53) tokens, not {0}")]
    Debt(u64),
    /// A time that is too short or too long.
    #[error("a hold lasts 1s to 1d, not {0:?}")]
    Ttl(Duration),
}

// === impl Holds ===

impl Default for Holds {
    fn default() -> Self {
        Self { max_debt: 0, on_abandon: OnAbandon::Charge, ttl: Self::DEFAULT_TTL }
    }
}

impl Holds {
    /// The time to live of holds whose config gives none.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(600);

    /// Holds of a limit whose charges leave a debt of at most `max_debt` tokens.
    ///
    /// # Errors
    /// When `max_debt` is above 2^53, or `ttl` not 1 s to a day.
    pub fn new(max_debt: u64, on_abandon: OnAbandon, ttl: Duration) -> Result<Self, HoldsError> {
        if max_debt > MAX_TOKENS {
            return Err(HoldsError::Debt(max_debt));
        }
        if ttl < Duration::from_secs(1) || ttl > Duration::from_secs(86_400) {
            return Err(HoldsError::Ttl(ttl));
        }
        Ok(Self { max_debt, on_abandon, ttl })
    }

    /// The most debt after a charge.
    pub const fn max_debt(self) -> u64 {
        self.max_debt
    }

    /// The fate of the tokens of an abandoned hold.
    pub const fn on_abandon(self) -> OnAbandon {
        self.on_abandon
    }

    /// The time after which a hold counts as abandoned.
    pub const fn ttl(self) -> Duration {
        self.ttl
    }
}
