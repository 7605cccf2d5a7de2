//! The ledger of a run: sums of tokens, as callers know them.

/// Sums of tokens, as callers know them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    pub(super) charged: u64,
    /// Perhaps taken, by calls without an answer.
    pub(super) unsure: u64,
    pub(super) holds: u64,
}
