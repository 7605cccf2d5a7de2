//! Tokens put into a bucket, as Redis does it.

use std::time::Duration;

use topup_twin::{AtRest, Bucket};
use topup_wire::{bucket::Operation, reply::PutInReply, scripts::PutIn};

use crate::{fault::Fault, server::Server};

/// The result of a put-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The tokens are in the bucket.
    Given,
    /// Another worker has taken since: the tokens are lost.
    Lost,
    /// The bucket has ended counting: ask again after so many µs.
    Ended(u64),
    /// No limit is published.
    Unknown,
}

// === impl Server ===

impl Server {
    /// Puts tokens into a bucket, or says when to ask again.
    pub(crate) fn put_in(&mut self, key: usize, request: PutIn, at: u64) -> Put {
        let now = self.time(at);
        self.expire(key, now);
        let Some(record) = self.record else {
            self.forget(key);
            return Put::Unknown;
        };
        let (before, headroom) = (self.tokens(key, now), self.headroom(key, now));
        if let (Some(Fault::PutInInPlace), Bucket::Counting(_)) = (self.fault, self.keys[key].bucket) {
            self.give_in_place(key, request.tokens.map(|tokens| tokens + request.unused), now);
            return Put::Given;
        }
        let request = match self.fault {
            Some(Fault::OneStep) => PutIn { in_hand_for: Duration::ZERO, ..request },
            Some(Fault::UnusedAlways) => PutIn { unused_since: u64::MAX, ..request },
            _ => request,
        };
        let given = &mut self.keys[key];
        let reply = topup_twin::put_in(&record, &mut given.bucket, request, now);
        if let (Some(Fault::NoHold), Bucket::AtRest(AtRest::Until { hold, .. })) =
            (self.fault, &mut given.bucket)
        {
            *hold = 0;
        }
        given.written(&record, now);
        match reply {
            PutInReply::Again(settled) => Put::Ended(settled.wait),
            PutInReply::Done(settled) => {
                // Tokens that repay debt leave the bucket empty.
                let given = settled.tokens > before
                    || settled.headroom < headroom
                    || before == record.capacity
                    || request.tokens == Some(0) && request.unused + request.spare == 0;
                if given { Put::Given } else { Put::Lost }
            }
        }
    }

    /// A planted fault: a bucket that stays counting all the while.
    fn give_in_place(&mut self, key: usize, tokens: Option<u64>, now: u64) {
        let Some(record) = self.record else { return };
        self.settle(key, &record, Operation::Refund(0), false, None, now);
        if let Bucket::Counting(held) = &mut self.keys[key].bucket {
            let most = record.capacity as i64 - 1;
            held.tokens = tokens.map_or(most, |count| held.tokens.saturating_add(count as i64).min(most));
        }
    }
}
