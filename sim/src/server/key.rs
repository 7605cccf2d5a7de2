//! A bucket's key.

use topup_twin::Bucket;

/// A bucket's key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Key {
    pub(crate) bucket: Bucket,
    /// When it expires, in ms; 0 where it does not.
    pub(crate) expires: u64,
    /// The counter that bare commands have made of an absent bucket.
    pub(crate) stray: Option<i64>,
    /// A bucket at rest is kept as a number.
    pub(crate) number: bool,
    /// When the key was made, in µs of Redis.
    pub(crate) born: u64,
}
