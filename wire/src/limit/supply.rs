//! The source of a limit's tokens.

use super::{PermitTtl, Rate, Windows};
use crate::bucket::Pace;

/// The current period of a calendar quota, in µs of Redis `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The instant at which buckets were last filled.
    pub since: u64,
    /// The instant at which they will be filled next.
    pub next: u64,
}

/// The source of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Steadily, at a rate.
    Rate(Rate),
    /// All at once, at calendar instants.
    Period(Period),
    /// As taken tokens leave the windows in which they count.
    Windows(Windows),
    /// As permits are released. A holder that does not renew its permits loses them after this time.
    Permits(PermitTtl),
}

// === impl Supply ===

impl Supply {
    /// The rate in lowest terms. `(0, 1)` for a calendar quota, which gets no tokens between its instants, and for
    /// windows and permits, whose tokens come as they were taken.
    pub const fn lowest_terms(self) -> (u64, u64) {
        let Pace { n, p } = self.pace();
        (n, p)
    }

    /// The same as a [`Pace`].
    pub const fn pace(self) -> Pace {
        match self {
            Self::Rate(rate) => rate.pace(),
            Self::Period(_) | Self::Windows(_) | Self::Permits(_) => Pace { n: 0, p: 1 },
        }
    }
}
