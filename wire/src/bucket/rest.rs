//! Buckets at rest: the twin of `rest.lua`.

use super::{Pace, Record};
use crate::limit::{Capacity, Rate};

/// Workers take by bare commands for a second after their last answer, and know nothing of what is put back meanwhile:
/// for so many µs a bucket that tokens were put back into does not count.
pub const HOLD: u64 = 1_250_000;
/// No hold is longer, in µs, since no lease is: one that seems to be is by a clock that stepped back.
pub(super) const LONGEST_HOLD: u64 = 62_000_000;

/// Takes of a bucket at rest that found no token are given back within so many µs.
pub(super) const GIVING_BACK: u64 = 250_000;

/// What the key of a bucket at rest says. It expires when the bucket is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtRest {
    /// A client's first take of a full bucket.
    FirstTake {
        /// Under which terms it was written: the last 4 digits of [`Record::terms`].
        tag: u16,
        /// Tokens taken.
        count: u64,
        /// When the key expires, in ms since the Unix epoch: what says when it was written.
        expires: u64,
    },
    /// What a script writes, and of some limits a client's first take, see
    /// [`rests_as_number`](crate::scripts::rests_as_number).
    Until {
        /// Under which terms it was written.
        tag: u16,
        /// The instant at which it is full.
        full_at: u64,
        /// The instant before which it does not count, since tokens were put back; 0 when none were.
        hold: u64,
    },
}

/// A bucket as of an instant.
pub(super) struct Standing {
    pub(super) tokens: u64,
    pub(super) score: u64,
    /// Whether it is not what was written, for more than the time that has passed.
    pub(super) moved: bool,
    /// Whether more was missing than a bucket holds, and so forgotten.
    pub(super) stepped: bool,
}

// === impl AtRest ===

impl AtRest {
    /// The longest an emptied bucket may take to fill, in µs: 50 years, so that the instant is one that doubles hold.
    const LONGEST: u128 = 50 * 366 * 86_400_000_000;

    /// Whether an instant in µs says exactly how full a bucket is: tokens come one at a time, and within 50 years.
    pub fn tells(capacity: Capacity, rate: Rate) -> bool {
        let (n, p) = rate.lowest_terms();
        n <= p && u128::from(capacity.get()) * u128::from(p) <= Self::LONGEST * u128::from(n)
    }

    /// Until when it must not count.
    pub(super) const fn hold(&self) -> u64 {
        match *self {
            Self::FirstTake { .. } => 0,
            Self::Until { hold, .. } => hold,
        }
    }

    /// The instant from which it is as good as absent, in ms since the Unix epoch: its key expires then.
    pub fn expiry(&self, record: &Record) -> u64 {
        match *self {
            Self::FirstTake { expires, .. } => expires,
            Self::Until { full_at, hold, .. } => full_at.max(hold).max(record.absent_full()).div_ceil(1_000),
        }
    }

    /// As of `now`, under the present terms; `None` when it says nothing of them.
    pub(super) fn standing(&self, record: &Record, now: u64) -> Option<Standing> {
        let (Self::FirstTake { tag, .. } | Self::Until { tag, .. }) = *self;
        let present = tag == record.tag();
        let before = record.before.filter(|_| !present);
        let (capacity, pace, at) = match before {
            // A shard that is younger than others counts its terms from its own beginning.
            None => (record.capacity, record.pace, now),
            Some(before) => (before.capacity, before.pace, record.since),
        };
        if pace.n == 0 {
            return None;
        }
        let (mut tokens, mut score);
        let (mut moved, mut stepped) = (false, false);
        match *self {
            Self::FirstTake { count, expires, .. } => {
                let taken = expires.saturating_sub(pace.first_take_ms(count)) * 1_000;
                let taken_by = now.min(taken + 999);
                (tokens, score) =
                    if before.is_none() { record.absent(taken_by) } else { (capacity, pace.start(taken_by)) };
                (tokens, moved) = (tokens.saturating_sub(count), taken > now);
            }
            Self::Until { full_at, .. } => (tokens, score, stepped) = arrived(capacity, pace, full_at, at),
        }
        if let Some(before) = before {
            (tokens, score) = record.carry(before, tokens, score);
            moved = true;
        }
        (tokens, score) = record.credit(tokens, score, now);
        Some(Standing { tokens, score, moved: moved || stepped, stepped })
    }
}

/// Tokens and score as of `at` of a bucket that is full at `full_at`, and whether the clock stepped back.
fn arrived(capacity: u64, pace: Pace, full_at: u64, at: u64) -> (u64, u64, bool) {
    if full_at <= at {
        return (capacity, full_at, false);
    }
    let (missing, score) = pace.missing(full_at, at);
    match u64::try_from(missing).ok().and_then(|missing| capacity.checked_sub(missing)) {
        Some(tokens) => (tokens, score, false),
        None => (0, pace.start(at), true),
    }
}
