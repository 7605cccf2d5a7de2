//! The publication of terms.

use crate::plan::Promise;

/// The terms to be published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publisher {
    pub(crate) desired: Promise,
    pub(crate) published: Promise,
    /// Instant from which the desired terms apply. `None` is the instant of their publication.
    pub(crate) from: Option<u64>,
    /// From when on those in force do.
    pub(crate) since: u64,
}

// === impl Publisher ===

impl Publisher {
    pub(crate) const fn new(terms: Promise) -> Self {
        Self { desired: terms, published: terms, from: None, since: 0 }
    }
}
