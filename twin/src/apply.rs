//! Operations on any bucket: the twin of `apply` in `bucket.lua`.

use topup_wire::{
    bucket::{Operation, Reservation},
    constants::EXACT,
    limit::Algorithm,
    reply::{Settled, Verdict},
};

use crate::record::Record;

/// The state of one bucket of an algorithm that only a script takes from, and the twin of that script.
pub trait State: Clone + PartialEq + std::fmt::Debug {
    /// The algorithm.
    const ALGORITHM: Algorithm;

    /// Settles the bucket: the reply to `operation` at `now`. A state of `None` has no key.
    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled;

    /// The expiry of a state just written, in ms since the Unix epoch.
    fn expiry(&self, record: &Record) -> u64;
}

/// The result of an operation, but for its wait.
pub(crate) struct Applied {
    pub(crate) verdict: Verdict,
    /// Below 0 in debt.
    pub(crate) tokens: i64,
    pub(crate) capacity: u64,
    pub(crate) wait: u64,
    pub(crate) now: u64,
    pub(crate) granted: u64,
    /// Tokens missing for the take that was denied, or for one token where none is left.
    pub(crate) missing: u64,
}

// === impl Decided ===

impl From<Applied> for Settled {
    fn from(decided: Applied) -> Self {
        let Applied { verdict, tokens, capacity, wait, now, granted, .. } = decided;
        let tokens = shown(tokens);
        Self { verdict, tokens, capacity, wait, headroom: 0, now, granted, counting: false }
    }
}

/// The reply where the limit is not published as this algorithm.
pub(crate) fn unknown(now: u64) -> Settled {
    let verdict = Verdict::Unknown;
    Settled { verdict, tokens: 0, capacity: 0, wait: 0, headroom: 0, now, granted: 0, counting: false }
}

/// The tokens of a reply: a bucket in debt has none.
pub(crate) fn shown(tokens: i64) -> u64 {
    tokens.max(0) as u64
}

/// Applies an operation to a bucket of `tokens`, below 0 in debt.
pub(crate) fn apply(capacity: u64, mut tokens: i64, operation: Operation, now: u64) -> Applied {
    let (mut verdict, mut granted, mut missing) = (Verdict::Allowed, 0, 0);
    match operation {
        Operation::Take(count) | Operation::Peek(count) | Operation::Reserve(Reservation { count, .. })
            if count > capacity =>
        {
            verdict = Verdict::ExceedsCapacity;
        }
        Operation::Take(count) | Operation::Peek(count) | Operation::Reserve(Reservation { count, .. })
            if tokens < count as i64 =>
        {
            (verdict, missing) = (Verdict::Denied, (count as i64 - tokens) as u64);
        }
        Operation::Take(count) | Operation::Reserve(Reservation { count, .. }) => granted = count,
        Operation::Share(count) | Operation::Lease(count) => {
            granted = count.min(shown(tokens));
            if tokens <= 0 {
                verdict = Verdict::Denied;
            }
        }
        Operation::Charge { count, most_debt } => {
            granted = count.min(shown(tokens + most_debt.min(EXACT - capacity) as i64));
        }
        Operation::Peek(_) => {}
        Operation::Refund(count) => tokens = tokens.saturating_add(count as i64).min(capacity as i64),
        Operation::Reset => tokens = capacity as i64,
    }
    tokens -= granted as i64;
    let takes = !matches!(operation, Operation::Peek(_) | Operation::Refund(_) | Operation::Reset);
    if tokens <= 0 && missing == 0 && takes && verdict != Verdict::ExceedsCapacity {
        missing = (1 - tokens) as u64;
    }
    Applied { verdict, tokens, capacity, wait: 0, now, granted, missing }
}

/// `operation` on a bucket that is never in debt.
pub(crate) const fn without_debt(operation: Operation) -> Operation {
    match operation {
        Operation::Charge { count, .. } => Operation::Charge { count, most_debt: 0 },
        other => other,
    }
}

/// Whether the bucket is written. A denied operation that credits nothing writes nothing.
pub(crate) fn writes(operation: Operation, verdict: Verdict, moved: bool) -> bool {
    let changed = verdict == Verdict::Allowed || (verdict == Verdict::Denied && moved);
    changed && !matches!(operation, Operation::Peek(_))
}
