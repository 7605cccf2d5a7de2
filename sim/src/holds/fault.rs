//! Mistakes in holds, which the laws find.

use crate::clients::Planted;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldFault {
    /// A hold that is settled again is charged again.
    SettledTwice,
    /// The use beyond the estimate is not charged.
    UseForgotten,
    /// A hold that was put back at its time is settled as if it still had its tokens.
    SettledTooLate,
    /// Tokens of dead holders stay taken.
    DeadForgotten,
    /// Tokens of dead holders are put back again and again.
    DeadPutBackTwice,
    /// The most debt is not looked at.
    DebtUnbounded,
}

// === impl HoldFault ===

impl HoldFault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::SettledTwice,
        Self::UseForgotten,
        Self::SettledTooLate,
        Self::DeadForgotten,
        Self::DeadPutBackTwice,
        Self::DebtUnbounded,
    ];

    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::SettledTwice => Planted::Script("if done then return", "if false then return"),
            Self::UseForgotten => Planted::Script("if used > count then", "if false then"),
            Self::SettledTooLate => {
                Planted::Script("not is_open then count = 0", "not is_open then count = count")
            }
            Self::DeadForgotten => {
                Planted::Script("redis.call('ZADD', holds, whole(now + bound), entry)", "")
            }
            Self::DeadPutBackTwice => {
                Planted::Script("if is_open then redis.call('ZREM', holds, entry) end", "")
            }
            Self::DebtUnbounded => {
                Planted::Script("used - count, tonumber(ARGV[6])", "used - count, 1000000")
            }
        }
    }
}
