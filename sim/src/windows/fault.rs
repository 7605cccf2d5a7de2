//! Mistakes in fixed windows, which the laws find.

use crate::clients::Planted;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFault {
    /// A window whose client died before it gave the key an expiry never ends.
    NeverEnds,
    /// Its tokens are forgotten as soon as a script meets it.
    CountForgotten,
    /// Tokens that were counted, though they were not left, stay taken.
    UncoveredForgotten,
    /// A script gives a token too many.
    OneTooMany,
    /// A window ends 50 ms early.
    EndsEarly,
}

// === impl WindowFault ===

impl WindowFault {
    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::NeverEnds => Planted::Script("elseif expires then", "elseif expires or held then"),
            Self::CountForgotten => Planted::Script("else moved = taken > 0 end", "else taken = 0 end"),
            Self::UncoveredForgotten => Planted::Script("if uncovered and", "if false and"),
            Self::OneTooMany => Planted::Script(
                "tokens = taken < capacity and capacity - taken or 0",
                "tokens = taken <= capacity and capacity - taken + 1 or 0",
            ),
            Self::EndsEarly => Planted::Script(
                "redis.call('SET', state, whole(taken), 'PXAT', whole(over / 1000 - 1))",
                "redis.call('SET', state, whole(taken), 'PXAT', whole(over / 1000 - 50))",
            ),
        }
    }
}
