//! The outcome of a request, for the response's extensions.

use crate::{error::Error, multi_decision::MultiDecision};

/// The decision about a request, in the extensions of its response.
///
/// With several layers, the decision of the outermost one that asked any limit counts. [`Degraded`](Self::Degraded) and
/// [`Undecided`](Self::Undecided) of an inner layer outweigh it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The decisions of the limits.
    Decided(MultiDecision),
    /// The decisions of the limits. Redis did not decide them all, so the outage policy did.
    Degraded(MultiDecision),
    /// No limit could decide, such as one that is not published. The outage policy did.
    Undecided(Error),
    /// No limit applies to the request, or it has no key.
    NotAsked,
}

// === impl Outcome ===

impl Outcome {
    /// Whether this outcome, of an inner layer, stays in place of that of a layer around it.
    pub(super) const fn outweighs(&self, around: &Self) -> bool {
        match self {
            Self::Degraded(_) | Self::Undecided(_) => true,
            Self::Decided(_) => matches!(around, Self::NotAsked),
            Self::NotAsked => false,
        }
    }
}
