//! Token buckets as Redis has them.

use crate::{counter::Counter, record::Record, rest::AtRest};

/// One token bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bucket {
    /// No key. The bucket is full, or has grown from the anchor.
    #[default]
    Absent,
    /// A key that expires when the bucket is full.
    AtRest(AtRest),
    /// A counter, in the due index or the previous one.
    Counting(Counter),
}

// === impl Bucket ===

impl Bucket {
    /// A counting bucket as a daemon writes it. A full one has no key.
    pub(crate) fn credited(record: &Record, tokens: i64, score: u64, now: u64) -> Self {
        if record.vanishes(tokens, now) {
            Self::Absent
        } else {
            Self::Counting(record.counter(tokens, score))
        }
    }
}
