//! The twin of `token_bucket.lua`, and of the native commands beside it.

mod act;
mod find;

use topup_wire::{
    bucket::Operation,
    constants::AT_REST_UNIT,
    limit::Algorithm,
    reply::{PutInReply, Settled},
    scripts::{InDoubt, PutIn},
};

use crate::{apply::State, bucket::Bucket, record::Record, rest::AtRest, stages::Stages};
use act::{Asked, act};
use find::forgotten;

/// The bare `DECR`, also of a missing key. Returns the tokens left; `None` if the bucket is at rest, which refuses it.
/// `stray` is the counter that such commands have made of an absent bucket.
pub fn decrement(bucket: &mut Bucket, stray: &mut i64) -> Option<i64> {
    let tokens = match bucket {
        Bucket::Absent => stray,
        Bucket::AtRest(_) => return None,
        Bucket::Counting(held) => &mut held.tokens,
    };
    *tokens -= 1;
    Some(*tokens)
}

/// A client's first take of a bucket without a stray counter. Returns whether the bucket was absent, and so taken from.
pub fn first_take(record: &Record, bucket: &mut Bucket, count: u64, now: u64) -> bool {
    let absent = *bucket == Bucket::Absent;
    if absent {
        let expires = now / 1_000 + record.pace.first_take_ms(count);
        *bucket = Bucket::AtRest(AtRest::FirstTake { tag: record.tag(), count, expires });
    }
    absent
}

/// A `DECRBY` of a bucket at rest by so many `units`, below 0 an `INCRBY`: the full instant after it. `None` when nothing
/// is taken: the command is refused for a text, and leaves a counter or a stray as good as it was.
///
/// Right only for a bucket whose value at rest is a number, see
/// [`rests_as_number`](topup_wire::scripts::rests_as_number).
pub fn move_at_rest(bucket: &mut Bucket, units: i64) -> Option<u64> {
    let Bucket::AtRest(AtRest::Until { full_at, early, hold: 0, .. }) = bucket else { return None };
    let exact = (*full_at * AT_REST_UNIT - *early).saturating_add_signed(units);
    *full_at = exact.div_ceil(AT_REST_UNIT);
    *early = *full_at * AT_REST_UNIT - exact;
    Some(*full_at)
}

/// `settle.lua`.
pub fn settle(
    record: &Record,
    bucket: &mut Bucket,
    operation: Operation,
    may_count: bool,
    in_doubt: Option<InDoubt>,
    now: u64,
) -> Settled {
    act(record, bucket, &Asked { operation, may_count, in_doubt, put_in: None, indexed: true }, now).0
}

/// Tokens in doubt that `settle.lua` takes off.
pub fn charged(record: &Record, bucket: &Bucket, in_doubt: InDoubt, now: u64) -> u64 {
    let stages = Stages::new(record, now);
    if stages.present().rests() { forgotten(&stages, bucket, in_doubt) } else { 0 }
}

/// `settle.lua`, where tokens are put in.
pub fn put_in(record: &Record, bucket: &mut Bucket, request: PutIn, now: u64) -> PutInReply {
    put_in_by(record, bucket, request, true, now)
}

fn put_in_by(record: &Record, bucket: &mut Bucket, request: PutIn, indexed: bool, now: u64) -> PutInReply {
    let operation = request.tokens.map_or(Operation::Reset, Operation::Refund);
    let asked = Asked { operation, may_count: false, in_doubt: None, put_in: Some(request), indexed };
    match act(record, bucket, &asked, now) {
        (settled, false) => PutInReply::Done(settled),
        (settled, true) => PutInReply::Again(settled),
    }
}

// === impl AtRest ===

impl AtRest {
    /// `settle.lua` for GCRA, where tokens are put in.
    pub fn put_in(record: &Record, state: &mut Option<Self>, request: PutIn, now: u64) -> PutInReply {
        let mut bucket = state.map_or(Bucket::Absent, Bucket::AtRest);
        let reply = put_in_by(&Record { catch_up: true, ..*record }, &mut bucket, request, false, now);
        *state = if let Bucket::AtRest(at_rest) = bucket { Some(at_rest) } else { None };
        reply
    }
}

// === impl State ===

/// GCRA keeps a bucket as a token bucket at rest does.
impl State for AtRest {
    const ALGORITHM: Algorithm = Algorithm::Gcra;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let record = &Record { catch_up: true, ..*record };
        let mut bucket = state.map_or(Bucket::Absent, Bucket::AtRest);
        let asked = Asked { operation, may_count: true, in_doubt: None, put_in: None, indexed: false };
        let (settled, _) = act(record, &mut bucket, &asked, now);
        *state = if let Bucket::AtRest(at_rest) = bucket { Some(at_rest) } else { None };
        settled
    }

    fn expiry(&self, record: &Record) -> u64 {
        self.expires(record, false)
    }
}
