//! The life of a bucket, with time as an argument: the twin of `scripts/bucket.lua` and the scripts upon it.
//!
//! Redis decides; this is the executable specification that the scripts are tested against.

mod fixed_window;
mod lazy_token_bucket;
mod leaky_bucket;
mod record;
mod refill;
mod rest;
mod sliding_counter;
mod sliding_window;
mod time;
mod token_bucket;

pub use fixed_window::Window;
pub use lazy_token_bucket::Lazy;
pub use leaky_bucket::Level;
pub use record::{Former, Record};
pub use refill::{again, carry, is_due, refill};
pub use rest::{AtRest, HOLD};
use rest::{GIVING_BACK, LONGEST_HOLD};
pub use sliding_counter::Windowed;
pub use sliding_window::{Entry, Log};
pub use time::{NEVER, Pace};
pub use token_bucket::{COUNT_FROM, LEAST_AHEAD, decrement, first_take, put_in, settle, take_at_rest};

use rest::Standing;

use crate::{
    limit::Algorithm,
    reply::{Settled, Verdict},
};

/// What a counting bucket holds and the instant up to which it has been credited, as last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Tokens; below 0 is debt left by takes that found nothing.
    pub tokens: i64,
    /// The instant up to which it has been credited, in µs of Redis `TIME`.
    pub score: u64,
    /// How far from full it was when written, 0 to [`FARTHEST`]: the farther, the less often it is looked at.
    pub distance: u32,
    /// Not yet carried over the last change of terms.
    pub former: bool,
}

/// The farthest a bucket can be from full, as far as refilling is concerned.
pub const FARTHEST: u32 = 5;
/// So many times less often a bucket is looked at with each step it is farther off.
pub const STRIDE: u64 = 4;
/// The index is ordered by score: so many times this, a bucket far from full stands apart from those that are nearer.
pub const FAR: i64 = 3_000_000_000_000_000;

/// One bucket, as Redis has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bucket {
    /// No key: full, or grown from the anchor.
    #[default]
    Absent,
    /// A key that expires when the bucket is full.
    AtRest(AtRest),
    /// A counter, and a place in the due index or in the former one.
    Counting(Held),
}

/// What to do with a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take so many tokens, all or nothing.
    Take(u64),
    /// What a take of so many would be told; changes nothing.
    Peek(u64),
    /// Take one token each for so many, as far as they go.
    Share(u64),
    /// A share whose reply is always all numbers.
    Lease(u64),
    /// Give so many tokens back, up to capacity.
    Refund(u64),
    /// Fill it.
    Reset,
    /// Take so many tokens of a leaky bucket ahead of time, for when what was taken before has leaked.
    Reserve {
        /// How many.
        count: u64,
        /// The longest delay, in µs.
        longest: u64,
    },
}

/// What an algorithm that needs nothing but its script keeps of one bucket: the script's twin.
pub trait State: Clone + PartialEq + std::fmt::Debug {
    /// Whose state it is.
    const ALGORITHM: Algorithm;

    /// The script: what comes of `operation` at `now`, and the state after it; `None` is at rest and has no key.
    fn operate(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled;

    /// The instant from which a state just written is as good as none, in ms since the Unix epoch.
    fn expiry(&self, record: &Record) -> u64;
}

/// What comes of an operation.
struct Decided {
    verdict: Verdict,
    tokens: u64,
    capacity: u64,
    wait: u64,
    now: u64,
    granted: u64,
    /// Tokens it would take more: for the take that was denied, or for one of a single token now that none is left.
    missing: u64,
}

// === impl Decided ===

impl From<Decided> for Settled {
    fn from(decided: Decided) -> Self {
        let Decided { verdict, tokens, capacity, wait, now, granted, .. } = decided;
        Self { verdict, tokens, capacity, wait, headroom: 0, now, granted, counting: false }
    }
}

// === impl Operation ===

impl Operation {
    /// The operation as scripts name it, and its count.
    pub(crate) const fn as_args(self) -> (&'static str, u64) {
        match self {
            Self::Take(count) => ("take", count),
            Self::Peek(count) => ("peek", count),
            Self::Share(count) | Self::Lease(count) => ("share", count),
            Self::Refund(count) => ("refund", count),
            Self::Reset => ("reset", 0),
            Self::Reserve { count, .. } => ("reserve", count),
        }
    }

    /// Tokens it takes, where there are as many.
    pub(crate) const fn takes(self) -> u64 {
        match self {
            Self::Take(count) | Self::Share(count) | Self::Lease(count) | Self::Reserve { count, .. } => {
                count
            }
            Self::Peek(_) | Self::Refund(_) | Self::Reset => 0,
        }
    }

    /// The tokens it is about.
    pub const fn count(self) -> u64 {
        self.as_args().1
    }

    /// The third argument of a reservation.
    pub(crate) const fn longest(self) -> Option<u64> {
        match self {
            Self::Reserve { longest, .. } => Some(longest),
            _ => None,
        }
    }
}

/// What the place of a bucket in the index has on its score, as far as it is from full.
pub const fn offset(distance: u32) -> i64 {
    let distance = distance as i64;
    FAR * if distance > 2 { 2 - distance } else { distance }
}

/// What a limit answers that is not published as what it is asked as.
fn unknown(now: u64) -> Settled {
    let verdict = Verdict::Unknown;
    Settled { verdict, tokens: 0, capacity: 0, wait: 0, headroom: 0, now, granted: 0, counting: false }
}

/// What comes of an operation on a bucket of `tokens`, but for its wait.
fn decided(capacity: u64, mut tokens: u64, operation: Operation, now: u64) -> Decided {
    let (mut verdict, mut granted, mut missing) = (Verdict::Allowed, 0, 0);
    match operation {
        Operation::Take(count) | Operation::Peek(count) | Operation::Reserve { count, .. }
            if count > capacity =>
        {
            verdict = Verdict::ExceedsCapacity;
        }
        Operation::Take(count) | Operation::Peek(count) | Operation::Reserve { count, .. }
            if tokens < count =>
        {
            (verdict, missing) = (Verdict::Denied, count - tokens);
        }
        Operation::Take(count) | Operation::Reserve { count, .. } => granted = count,
        Operation::Share(count) | Operation::Lease(count) => {
            granted = count.min(tokens);
            if tokens == 0 {
                verdict = Verdict::Denied;
            }
        }
        Operation::Peek(_) => {}
        Operation::Refund(count) => tokens = tokens.saturating_add(count).min(capacity),
        Operation::Reset => tokens = capacity,
    }
    tokens -= granted;
    let takes = !matches!(operation, Operation::Peek(_) | Operation::Refund(_) | Operation::Reset);
    if tokens == 0 && takes && verdict != Verdict::ExceedsCapacity {
        missing = missing.max(1);
    }
    Decided { verdict, tokens, capacity, wait: 0, now, granted, missing }
}

/// Whether the bucket is written; what was refused and credited nothing is left as it is.
fn writes(operation: Operation, verdict: Verdict, moved: bool) -> bool {
    let changed = verdict == Verdict::Allowed || (verdict == Verdict::Denied && moved);
    changed && !matches!(operation, Operation::Peek(_))
}
