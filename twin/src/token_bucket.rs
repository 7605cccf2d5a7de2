//! The twin of `token_bucket.lua`.

use topup_wire::{
    bucket::{Operation, Pace},
    constants::{
        AT_REST_UNIT, COUNT_FROM, EXACT, FULL_AT_SLACK, GIVING_BACK, HOLD, HOLD_MARGIN, LEAST_AHEAD,
        LONGEST_HOLD, LONGEST_TICK_WAIT, SHORTEST_TICK_WAIT,
    },
    limit::Algorithm,
    reply::{PutInReply, Settled},
    scripts::PutIn,
};

use crate::{
    apply::{Applied, State, apply, shown, without_debt, writes},
    bucket::Bucket,
    record::Record,
    rest::{AtRest, Snapshot},
    stages::{Stages, Wrote},
};

/// The arguments of a script.
struct Asked {
    operation: Operation,
    may_count: bool,
    doubt: u64,
    /// Where tokens are put in.
    put_in: Option<PutIn>,
    /// Whether there is a due index: under GCRA there is none.
    indexed: bool,
}

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
    doubt: u64,
    now: u64,
) -> Settled {
    act(record, bucket, &Asked { operation, may_count, doubt, put_in: None, indexed: true }, now).0
}

/// `settle.lua`, where tokens are put in.
pub fn put_in(record: &Record, bucket: &mut Bucket, request: PutIn, now: u64) -> PutInReply {
    let operation = request.tokens.map_or(Operation::Reset, Operation::Refund);
    let asked = Asked { operation, may_count: false, doubt: 0, put_in: Some(request), indexed: true };
    match act(record, bucket, &asked, now) {
        (settled, false) => PutInReply::Done(settled),
        (settled, true) => PutInReply::Again(settled),
    }
}

/// Whether an empty bucket at rest owes tokens: takes that found none and are about to be given back.
fn owes(record: &Record, bucket: &Bucket, now: u64) -> bool {
    let Bucket::AtRest(AtRest::Until { tag, full_at, .. }) = *bucket else { return false };
    let Pace { n, p } = record.pace;
    tag == record.tag() && full_at.saturating_sub(now + record.capacity * p / n) <= GIVING_BACK
}

/// `token_bucket.lua`: the reply, and whether tokens have to be put in again after its wait.
fn act(record: &Record, bucket: &mut Bucket, asked: &Asked, now: u64) -> (Settled, bool) {
    let stages = Stages::new(record, now);
    let record = stages.present();
    let rests = record.rests();
    let doubt = if rests { asked.doubt } else { 0 };
    let (mut found, mut hold) = find(&stages, bucket, doubt, now);
    if let (Some(score), true) = (found.stepped, asked.indexed && record.may_rest_as_number()) {
        hold = hold.max(now + GIVING_BACK);
        if owes(record, bucket, now) {
            (found.score, found.moved) = (score, false);
        }
    }
    let mut refunded = hold > now && hold % 2 == 1;
    let floor = if rests { found.tokens.min(0) } else { 0 };
    let before = (found.tokens - doubt as i64).max(floor);
    let (score, moved) = (found.score, found.moved || doubt > 0);

    let mut counting = matches!(bucket, Bucket::Counting(_));
    let (mut operation, mut untouched, mut ended, mut wait) = (asked.operation, false, false, 0);
    if let Some(PutIn { tokens, unused, unused_since, spare, full_at, in_hand_for }) = asked.put_in {
        let unused = if refunded && unused_since < hold - HOLD { 0 } else { unused };
        refunded |= tokens.is_some_and(|tokens| tokens > 0);
        let tokens = tokens.map(|tokens| tokens.saturating_add(unused));
        operation = tokens.map_or(Operation::Reset, Operation::Refund);
        let full = now + record.headroom(score, before, now);
        let exact = record.pace.n > 0 && record.pace.p / 10 >= record.pace.n;
        untouched =
            exact && hold <= now && full_at.is_some_and(|full_at| full.abs_diff(full_at) <= FULL_AT_SLACK);
        if untouched {
            operation = tokens.map_or(Operation::Reset, |tokens| Operation::Refund(tokens + spare));
        } else if tokens != Some(0) && rests && full < EXACT {
            let in_hand_for = in_hand_for.as_micros() as u64;
            let span = HOLD.max(in_hand_for + HOLD_MARGIN);
            let left = if hold > now { (hold + in_hand_for).saturating_sub(span + now) } else { 0 };
            if counting {
                (ended, hold, wait) = (true, now + span, in_hand_for);
            } else if left > 0 {
                (ended, wait) = (true, left);
            }
        }
        if ended {
            operation = Operation::Refund(0);
        }
    }

    let Applied { verdict, tokens, granted, missing, .. } =
        apply(record.capacity, before, if rests { operation } else { without_debt(operation) }, now);
    if missing > 0 {
        wait = record.wait_for(tokens, score, missing, now);
        if !record.catch_up {
            let soon = (record.tick / 4).clamp(SHORTEST_TICK_WAIT, LONGEST_TICK_WAIT);
            wait = wait.max((score + record.tick).saturating_sub(now)).max(soon);
        }
    }

    let (headroom, gap) = (record.headroom(score, tokens, now), record.missing(tokens));
    let mut counts = true;
    if ended && counting {
        counts = false;
    } else if rests && asked.indexed && tokens > before && !untouched {
        (counts, hold) = (now + headroom >= EXACT, hold.max(now + HOLD));
    } else if rests && counting {
        counts = untouched || gap > 1;
    } else if rests {
        let pays = gap >= COUNT_FROM && headroom >= LEAST_AHEAD;
        counts = asked.indexed && asked.may_count && granted > 0 && hold <= now && pays;
        counts |= asked.indexed && now + headroom >= EXACT;
    }
    refunded |=
        operation == Operation::Reset || asked.put_in.is_none() && matches!(operation, Operation::Refund(_));
    if hold > now {
        hold = hold - hold % 2 + u64::from(refunded);
    }
    counts &= !stages.is_ahead() && tokens >= 0;

    if writes(operation, verdict, moved) {
        let vanishes = hold <= now && record.vanishes(tokens, now);
        *bucket = if vanishes {
            Bucket::Absent
        } else if counts {
            Bucket::Counting(record.counter(tokens, score))
        } else {
            let full_at = if gap == 0 { now } else { (now + headroom).min(EXACT - 1) };
            let hold = if hold > now { hold } else { 0 };
            Bucket::AtRest(if tokens < 0 {
                AtRest::Debt { tag: record.tag(), at: score, hold, debt: tokens.unsigned_abs() }
            } else {
                AtRest::Until { tag: record.tag(), full_at, early: 0, hold }
            })
        };
        counting = counts && !vanishes;
    }
    let (tokens, capacity) = (shown(tokens), record.capacity);
    (Settled { verdict, tokens, capacity, wait, headroom, now, granted, counting }, ended)
}

/// A bucket as of now, and the instant until which it must not count. Tokens in `doubt` are not taken off.
fn find(stages: &Stages, bucket: &Bucket, doubt: u64, now: u64) -> (Snapshot, u64) {
    let record = stages.present();
    let absent = || {
        let (tokens, score) = record.absent(now);
        Snapshot { tokens, score, moved: false, stepped: None }
    };
    match *bucket {
        Bucket::Absent => (absent(), 0),
        Bucket::AtRest(at_rest) => match at_rest.standing(stages, now) {
            None => (absent(), 0),
            Some(standing) if record.rests() => (standing, at_rest.hold().min(now + LONGEST_HOLD)),
            Some(standing) => (standing, 0),
        },
        Bucket::Counting(held) => {
            let (tokens, score, met) = stages.own().migrated_counter(held);
            let (mut tokens, mut score) = stages.carried(Wrote::Stage(0), tokens, score);
            if record.catch_up || tokens >= record.capacity as i64 {
                (tokens, score) = record.credit(tokens + doubt as i64, score, now);
            }
            (Snapshot { tokens, score, moved: met || score != held.score, stepped: None }, 0)
        }
    }
}

// === impl State ===

/// GCRA keeps a bucket as a token bucket at rest does.
impl State for AtRest {
    const ALGORITHM: Algorithm = Algorithm::Gcra;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let record = &Record { catch_up: true, ..*record };
        let mut bucket = state.map_or(Bucket::Absent, Bucket::AtRest);
        let asked = Asked { operation, may_count: true, doubt: 0, put_in: None, indexed: false };
        let (settled, _) = act(record, &mut bucket, &asked, now);
        *state = if let Bucket::AtRest(at_rest) = bucket { Some(at_rest) } else { None };
        settled
    }

    fn expiry(&self, record: &Record) -> u64 {
        Self::expiry(self, record)
    }
}
