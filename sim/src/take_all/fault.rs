//! Mistakes in takes of several limits, which the laws find.

use crate::clients::Planted;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeAllFault {
    /// The script takes of the other buckets, though one denies.
    TakesAnyhow,
    /// Tokens that go back from a denied take are not put in.
    PutBackForgotten,
    /// They are put in twice.
    PutBackTwice,
    /// The script of several limits finds three tokens too many.
    FindsMore,
    /// First takes write another key.
    FirstTakesMisplaced,
}

// === impl TakeAllFault ===

impl TakeAllFault {
    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::TakesAnyhow => {
                Planted::Script("ARGV[3 * bucket] == '1' then allowed = false", "false then allowed = false")
            }
            Self::PutBackForgotten => Planted::Script("(not lost and unused or 0)", "0"),
            Self::PutBackTwice => {
                Planted::Script("(not lost and unused or 0)", "(not lost and 2 * unused or 0)")
            }
            Self::FindsMore => Planted::Script(
                "        tokens = capacity - missed\n",
                "        tokens = capacity - missed + 3\n",
            ),
            Self::FirstTakesMisplaced => Planted::FirstTakesMisplaced,
        }
    }
}
