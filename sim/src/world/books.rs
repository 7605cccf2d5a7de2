//! A bucket's books: the notes for the judge, and sums of tokens.

use crate::oracle::Note;

/// A bucket's notes and sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// Notes with their instants and their order.
    pub(crate) notes: Vec<(u64, u64, Note)>,
    /// Tokens that Redis has granted.
    pub(crate) granted: u64,
    /// The number, in order, of the last command that took tokens.
    pub(crate) granted_at: u64,
    /// Tokens that callers were told of.
    pub(crate) told: u64,
    /// Tokens taken ahead or granted in vain that were put back.
    pub(crate) returned: u64,
    /// Tokens in doubt that were paid.
    pub(crate) charged: u64,
}

// === impl Books ===

impl Books {
    /// Tokens that are in no bucket: in hand, on their way, or lost.
    pub(crate) const fn elsewhere(&self) -> u64 {
        (self.granted + self.charged).saturating_sub(self.told + self.returned)
    }
}
