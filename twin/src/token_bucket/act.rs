//! One operation of the script, from the bucket as it is found to the bucket as it is written.

use topup_wire::{
    bucket::{Operation, Pace, Reservation},
    constants::{
        COUNT_FROM, EXACT, FULL_AT_SLACK, GIVING_BACK, HOLD, HOLD_MARGIN, LEAST_AHEAD, LONGEST_TICK_WAIT,
        MOST_TAKEN_AT_REST, RESERVED_FOR, SHORTEST_TICK_WAIT,
    },
    reply::Settled,
    scripts::{InDoubt, PutIn},
};

use super::find::{find, forgotten};
use crate::{
    apply::{Applied, apply, shown, without_debt, writes},
    bucket::Bucket,
    record::Record,
    rest::AtRest,
    stages::Stages,
};

/// The arguments of a script.
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) may_count: bool,
    pub(super) in_doubt: Option<InDoubt>,
    /// Where tokens are put in.
    pub(super) put_in: Option<PutIn>,
    /// Whether there is a due index: under GCRA there is none.
    pub(super) indexed: bool,
}

/// `token_bucket.lua`: the reply, and whether tokens have to be put in again after its wait.
pub(super) fn act(record: &Record, bucket: &mut Bucket, asked: &Asked, now: u64) -> (Settled, bool) {
    let stages = Stages::new(record, now);
    let record = stages.present();
    let rests = record.rests();
    let in_doubt = asked.in_doubt.filter(|_| rests);
    let doubt = in_doubt.map_or(0, |in_doubt| forgotten(&stages, bucket, in_doubt));
    let (mut found, mut hold) = find(&stages, bucket, now);
    if let (Some(score), true) = (found.stepped, asked.indexed && record.may_rest_as_number()) {
        hold = hold.max(now + GIVING_BACK);
        if owes(record, bucket, now) {
            (found.score, found.moved) = (score, false);
        }
    }
    let refunded = hold > now && hold % 2 == 1;
    let floor = if rests { found.tokens.min(0) } else { 0 };
    let before = (found.tokens - doubt as i64).max(floor);
    let (mut score, moved) = (found.score, found.moved || in_doubt.is_some());

    let was_counting = matches!(bucket, Bucket::Counting(_));
    let mut counting = was_counting;
    let (mut operation, mut untouched, mut ended, mut wait) = (asked.operation, false, false, 0);
    if let Some(PutIn { tokens, unused, unused_since, spare, full_at, in_hand_for }) = asked.put_in {
        let unused = if refunded && unused_since <= hold - HOLD { 0 } else { unused };
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

    let mut reserved = None;
    if let Operation::Reserve(reservation) = operation {
        let Reservation { count, longest, forfeit, .. } = reservation;
        operation = Operation::Take(count);
        let short = count as i64 - before;
        let spans = if rests { forfeit.div_ceil(record.pace.p) } else { 0 };
        let owed = i128::from(short) + i128::from(spans) * i128::from(record.pace.n);
        let may_owe = count <= record.capacity && owed <= i128::from(EXACT - record.capacity);
        if short > 0 && may_owe && rests && !refunded {
            let delay = record.wait_for(before, score, short as u64, now);
            reserved = (delay <= longest).then_some((reservation, delay, spans));
        }
        if reserved.is_some() {
            operation = Operation::Charge { count, most_debt: short as u64 };
        }
    }
    let Applied { verdict, mut tokens, granted, missing, .. } =
        apply(record.capacity, before, if rests { operation } else { without_debt(operation) }, now);
    if let Some((Reservation { in_hand_for, forfeit, .. }, delay, spans)) = reserved {
        tokens -= (spans * record.pace.n) as i64;
        score = score + forfeit - spans * record.pace.p;
        let used = (delay + RESERVED_FOR).max(in_hand_for);
        (wait, hold) = (delay, hold.max(now + used + HOLD.saturating_sub(in_hand_for).max(HOLD_MARGIN)));
    } else if missing > 0 {
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
    let gives = match asked.operation {
        Operation::Reset => true,
        Operation::Refund(count) => count > 0,
        _ => false,
    };
    if hold > now && (hold % 2 == 1) != (refunded || gives && !(ended && was_counting)) {
        hold -= 1;
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

/// Whether an empty bucket at rest owes tokens: takes that found none and are about to be given back.
fn owes(record: &Record, bucket: &Bucket, now: u64) -> bool {
    let Bucket::AtRest(AtRest::Until { tag, full_at, .. }) = *bucket else { return false };
    let Pace { n, p } = record.pace;
    let owed = full_at.saturating_sub(now + record.capacity * p / n);
    tag == record.tag() && owed <= GIVING_BACK.max(MOST_TAKEN_AT_REST * p / n)
}
