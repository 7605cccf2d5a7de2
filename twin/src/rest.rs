//! Buckets at rest: the twin of `rest.lua`.

use topup_wire::{
    constants::{EXACT, LATEST_START},
    scripts::early_at_rest,
};

use crate::{
    record::{PreviousTerms, Record},
    stages::Stages,
    time::{Credit, arrived},
};

/// The value of a bucket at rest. Its key expires when the bucket is full, or a little later if it may be a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtRest {
    /// A client's first take of a full bucket.
    FirstTake {
        /// Under which terms it was written: the last 4 digits of [`Record::terms_id`].
        tag: u16,
        /// Tokens taken.
        count: u64,
        /// When the key expires, in ms since the Unix epoch: what says when it was written.
        expires: u64,
    },
    /// The value that a script writes. A client's first take writes it, too, for limits that
    /// [`rests_as_number`](topup_wire::scripts::rests_as_number) names.
    Until {
        /// Under which terms it was written.
        tag: u16,
        /// The instant at which it is full, rounded up to a µs.
        full_at: u64,
        /// By how many units of a number it is full earlier. Native takes of a number leave them.
        early: u64,
        /// The instant before which it does not count, since tokens were put back; 0 when none were.
        hold: u64,
    },
    /// A bucket in debt.
    Debt {
        /// Under which terms it was written.
        tag: u16,
        /// The instant of the debt.
        at: u64,
        /// The instant before which it does not count, since tokens were put back; 0 when none were.
        hold: u64,
        /// Tokens that have to come before it is empty.
        debt: u64,
    },
}

/// A bucket as of an instant.
pub(crate) struct Snapshot {
    /// Below 0 in debt.
    pub(crate) tokens: i64,
    pub(crate) score: u64,
    /// Whether it differs from the stored value by more than the passed time.
    pub(crate) moved: bool,
    /// Where more was missing than a bucket holds, and so forgotten: the last instant of the tokens on the way to the full
    /// instant.
    pub(crate) stepped: Option<u64>,
}

// === impl AtRest ===

impl AtRest {
    /// Until when it must not count.
    pub(crate) const fn hold(&self) -> u64 {
        match *self {
            Self::FirstTake { .. } => 0,
            Self::Until { hold, .. } | Self::Debt { hold, .. } => hold,
        }
    }

    /// The instant from which it is as good as absent, in ms since the Unix epoch: its key expires then.
    pub fn expiry(&self, record: &Record) -> u64 {
        self.expires(record, true)
    }

    /// The same. `may_be_number`: the bucket is a token bucket, whose key as a number lives for longer.
    pub(crate) fn expires(&self, record: &Record, may_be_number: bool) -> u64 {
        let kept = |record: &Record| {
            if may_be_number && record.may_rest_as_number() { early_at_rest(record.pace) } else { 0 }
        };
        match *self {
            Self::FirstTake { expires, .. } => expires,
            Self::Until { tag, full_at, hold, .. } => {
                let record = record.after_changes(|record| record.tag() == tag);
                let full_at = (full_at + kept(&record)).max(record.full_in_the_end(full_at));
                full_at.max(hold).max(record.absent_full()).div_ceil(1_000)
            }
            Self::Debt { tag, at, hold, debt } => {
                let record = record.after_changes(|record| record.tag() == tag);
                // A script computes both: the one without the changes ahead, too.
                let full_at = record.pace.instant(at, record.capacity + debt).min(EXACT - 1);
                let in_the_end = record.reached(-(debt as i64), at, None);
                let kept_until = full_at + kept(&record);
                let full_at =
                    if record.schedule.is_empty() { kept_until } else { kept_until.max(in_the_end) };
                full_at.max(hold).max(record.absent_full()).div_ceil(1_000)
            }
        }
    }

    /// As of `now`, under the present terms; `None` when it says nothing of them.
    pub(crate) fn standing(&self, stages: &Stages, now: u64) -> Option<Snapshot> {
        let (Self::FirstTake { tag, .. } | Self::Until { tag, .. } | Self::Debt { tag, .. }) = *self;
        // A shard that is younger than others counts its terms from its own beginning.
        let wrote = stages.wrote(|stage| stage.tag() == tag);
        let (under, PreviousTerms { capacity, pace, .. }, ended) = stages.terms_of(wrote);
        let at = ended.unwrap_or(now);
        if pace.n == 0 {
            return None;
        }
        let (mut tokens, mut score);
        let (mut moved, mut stepped) = (false, None);
        match *self {
            Self::FirstTake { count, expires, .. } => {
                let taken = expires.saturating_sub(pace.first_take_ms(count)) * 1_000;
                let taken_by = now.min(taken + 999);
                (tokens, score) =
                    under.map_or((capacity as i64, pace.start(taken_by)), |under| under.absent(taken_by));
                (tokens, moved) = ((tokens - count as i64).max(0), taken > now);
            }
            Self::Debt { at, debt, .. } => {
                (tokens, score, moved) = (-(debt as i64), at, at > now + LATEST_START);
            }
            Self::Until { full_at, .. } => (tokens, score, stepped) = arrived(capacity, pace, full_at, at),
        }
        if ended.is_some() {
            (tokens, score) = stages.carried(wrote, tokens, score);
            moved = true;
        }
        (tokens, score) = stages.present().credit(tokens, score, now);
        Some(Snapshot { tokens, score, moved: moved || stepped.is_some(), stepped })
    }
}
