//! The settle script, and its replies.

use topup_twin::{AtRest, Bucket, Record};
use topup_wire::{
    bucket::{Operation, Reservation},
    constants::LONGEST_SHORT_HEADROOM,
    limit::Algorithm,
    reply::{Settled, Verdict},
    scripts::InDoubt,
};

use super::{Server, Written};
use crate::fault::Fault;

// === impl Server ===

impl Server {
    /// The settle script.
    pub(crate) fn settle(
        &mut self,
        key: usize,
        record: &Record,
        operation: Operation,
        may_count: bool,
        in_doubt: Option<InDoubt>,
        now: u64,
    ) -> Settled {
        self.expire(key, now);
        let key = &mut self.keys[key];
        let before = key.bucket;
        let operation = match (self.fault, operation) {
            (Some(Fault::LeaseForgotten), Operation::Reserve(reservation)) => {
                Operation::Reserve(Reservation { in_hand_for: 0, ..reservation })
            }
            _ => operation,
        };
        let settled = topup_twin::settle(record, &mut key.bucket, operation, may_count, in_doubt, now);
        let denied_in_doubt = in_doubt.is_some() && settled.verdict == Verdict::Denied;
        let writes = before != key.bucket || settled.verdict == Verdict::Allowed || denied_in_doubt;
        if writes && !matches!(operation, Operation::Peek(_)) {
            key.written(record, now);
            if let (Some(Fault::ChangeAheadForgotten), Bucket::AtRest(AtRest::Until { full_at, .. })) =
                (self.fault, key.bucket)
            {
                key.expires = full_at.div_ceil(1_000);
            }
            if let (Some(Fault::ReservationUnheld), Operation::Reserve(_)) = (self.fault, operation)
                && let Bucket::AtRest(AtRest::Debt { hold, .. }) = &mut key.bucket
            {
                *hold = 0;
            }
        }
        settled
    }

    /// A settle's reply as the worker reads it: all that was asked for is told in one number.
    pub(super) fn told(
        &self,
        settled: Settled,
        operation: Operation,
        written: Written,
        record: &Record,
    ) -> Settled {
        let headroom = settled.headroom + self.too_long(record);
        let settled = match (self.fault, operation) {
            (Some(Fault::DelayUntold), Operation::Reserve(_)) => Settled { wait: 0, ..settled },
            _ => settled,
        };
        let asked = match operation {
            Operation::Take(count) | Operation::Share(count) => count,
            _ => return Settled { headroom, ..settled },
        };
        if settled.verdict != Verdict::Allowed
            || settled.granted != asked
            || settled.headroom >= LONGEST_SHORT_HEADROOM
        {
            return Settled { headroom, ..settled };
        }
        let number = headroom * 2 + u64::from(settled.counting);
        let bucket = Algorithm::TokenBucket;
        Settled::from_number(number, bucket, written.capacity, written.terms.pace, asked)
    }

    /// µs that a planted fault adds to the time for which a bucket stays below full.
    fn too_long(&self, record: &Record) -> u64 {
        match self.fault {
            Some(Fault::FullInstantLate) => record.pace.p.div_ceil(record.pace.n),
            Some(Fault::Leeway) => record.tick / 2,
            _ => 0,
        }
    }
}
