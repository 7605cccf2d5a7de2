//! Putting tokens into a bucket by two steps.
//!
//! Whoever has tokens of a counting bucket in hand, or takes from it by bare commands, believes it below full for a
//! while. So the bucket ends counting first, and the tokens follow when all those have ended, too.

use topup_wire::{
    bucket::{AtRest, Bucket, HOLD, Operation, put_back},
    reply::Settled,
};

use crate::{fault::Fault, server::Server};

/// What is put into a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutIn {
    /// Tokens; `None` fills the bucket.
    pub(crate) tokens: Option<u64>,
    /// When the bucket is full if nobody else has taken since: then tokens go in at once.
    pub(crate) full_at: Option<u64>,
    /// Whether tokens are lost where somebody else has taken since.
    pub(crate) or_lost: bool,
    /// The longest that any worker has tokens of the bucket in hand, in µs.
    pub(crate) in_hand_for: u64,
}

/// What has come of a put-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The tokens are in the bucket.
    Given,
    /// Somebody else has taken since.
    Lost,
    /// The bucket has ended counting: ask again after so many µs.
    Ended(u64),
    /// No limit is published.
    Unknown,
}

/// The full instant may differ by so many µs for having been reckoned token by token.
const ROUNDED: u64 = 5;

// === impl Server ===

impl Server {
    /// Puts tokens into a bucket, or says when to ask again.
    pub(crate) fn put_in(&mut self, key: usize, request: PutIn, at: u64) -> Put {
        let now = self.time(at);
        let Some(record) = self.record else { return Put::Unknown };
        self.expire(key, now);
        let PutIn { tokens, full_at, or_lost, in_hand_for } = request;
        let operation = tokens.map_or(Operation::Reset, Operation::Refund);
        let exact = record.pace.p / 10 >= record.pace.n;
        let full = now + self.headroom(key, now);
        let untouched = exact && full_at.is_some_and(|told| told.abs_diff(full) <= ROUNDED);
        if or_lost && !untouched {
            return Put::Lost;
        }
        if let (Bucket::Counting(_), true, Some(count), Some(full_at)) =
            (self.keys[key].bucket, untouched, tokens, full_at)
        {
            let given = &mut self.keys[key];
            put_back(&record, &mut given.bucket, count, full_at, now);
            given.expires = match given.bucket {
                Bucket::AtRest(at_rest) => at_rest.expiry(&record),
                _ => 0,
            };
            return Put::Given;
        }
        let held_for = HOLD;
        match self.keys[key].bucket {
            Bucket::Counting(_) if self.fault == Some(Fault::PutInInPlace) => {
                self.give_in_place(key, operation, now);
                return Put::Given;
            }
            Bucket::Counting(_) => {
                let settled = self.settle(key, &record, Operation::Refund(0), false, 0, now);
                self.end(key, settled, held_for, now);
                return Put::Ended(in_hand_for);
            }
            Bucket::AtRest(AtRest::Until { hold, .. }) if hold > now => {
                let since = hold.saturating_sub(held_for);
                if since + in_hand_for > now {
                    return Put::Ended(since + in_hand_for - now);
                }
            }
            _ => {}
        }
        self.settle(key, &record, operation, false, 0, now);
        if self.fault == Some(Fault::NoHold)
            && let Bucket::AtRest(AtRest::Until { hold, .. }) = &mut self.keys[key].bucket
        {
            *hold = 0;
        }
        Put::Given
    }

    /// Ends the counting of a bucket.
    fn end(&mut self, key: usize, settled: Settled, held_for: u64, now: u64) {
        let Some(record) = self.record else { return };
        let (full_at, hold) = (now + settled.headroom, now + held_for);
        let at_rest = AtRest::Until { tag: (record.terms % 10_000) as u16, full_at, hold };
        self.keys[key].bucket = Bucket::AtRest(at_rest);
        self.keys[key].expires = at_rest.expiry(&record);
        self.keys[key].stray = None;
    }

    /// A planted fault: a bucket that stays counting all the while.
    fn give_in_place(&mut self, key: usize, operation: Operation, now: u64) {
        let Some(record) = self.record else { return };
        self.settle(key, &record, Operation::Refund(0), false, 0, now);
        if let Bucket::Counting(held) = &mut self.keys[key].bucket {
            let capacity = record.capacity as i64;
            held.tokens = match operation {
                Operation::Refund(count) => held.tokens.saturating_add(count as i64).min(capacity - 1),
                _ => capacity - 1,
            };
        }
    }
}
