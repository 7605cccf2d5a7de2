//! Counting buckets, and their scores in the due index.

use topup_wire::constants::BAND_WIDTH;

/// A counting bucket as last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Tokens; debt below 0, which takes that found too few have left.
    pub tokens: i64,
    /// The instant up to which the bucket has been credited.
    pub score: u64,
    /// Backoff band, 0 to [`LAST_BAND`](topup_wire::constants::LAST_BAND): the higher, the less often a daemon credits
    /// the bucket.
    pub band: u32,
    /// The bucket stands in the previous index: it is not migrated over the last change of terms yet.
    pub is_previous: bool,
}

/// The offset of a backoff band's scores in the index.
pub const fn band_offset(band: u32) -> i64 {
    let band = band as i64;
    BAND_WIDTH * if band > 2 { 2 - band } else { band }
}
