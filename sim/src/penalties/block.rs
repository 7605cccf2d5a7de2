//! A block of a key, from its begin to its end.

/// A pause of a key, as Redis has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// It began between these two instants.
    pub(super) after: u64,
    pub(super) from: u64,
    /// Its end, unless somebody or a flush ended it.
    pub(super) until: u64,
    pub(super) ended: Option<u64>,
}
