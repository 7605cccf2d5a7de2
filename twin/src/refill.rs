//! The twins of `refill.lua` and `migrate.lua`.

use topup_wire::constants::{BAND_STRIDE, EXACT, LATEST_START, OVERDUE_RETRY};

use crate::{bucket::Bucket, counter::Counter, record::Record};

/// Whether a pass of `refill.lua` is for a bucket; with `all`, however far from full it is.
pub fn is_due(record: &Record, held: Counter, all: bool, now: u64) -> bool {
    if record.schedule.first_at().is_some_and(|at| at <= now) {
        return false;
    }
    if held.is_previous || held.score > now + LATEST_START {
        return all && !held.is_previous;
    }
    if record.pace.n == 0 {
        return held.score < record.last_filled(now) && held.score + record.tick <= now;
    }
    let stride = if all { 1 } else { BAND_STRIDE.pow(held.band) };
    held.score + record.period() * stride <= now
}

/// `refill.lua`, for one bucket: whether it was due, however far from full, and so credited.
pub fn refill(record: &Record, bucket: &mut Bucket, now: u64) -> bool {
    let Bucket::Counting(held) = *bucket else { return false };
    if !is_due(record, held, true, now) {
        return false;
    }
    let (tokens, score) = record.credit(record.counted(held.tokens).0 as i64, held.score, now);
    *bucket = Bucket::credited(record, tokens, score, now);
    true
}

/// When the next bucket is due, for a `refill.lua` that has left none that is.
pub fn again(record: &Record, buckets: impl Iterator<Item = Counter>, now: u64) -> u64 {
    if record.schedule.first_at().is_some_and(|at| at <= now) {
        return now + OVERDUE_RETRY;
    }
    if record.pace.n == 0 {
        return if record.fills > now { record.fills } else { now + record.tick };
    }
    let due = |held: Counter| held.score + record.period() * BAND_STRIDE.pow(held.band);
    buckets.filter(|held| !held.is_previous).map(due).fold(EXACT, u64::min)
}

/// `migrate.lua`, for one bucket: whether it was migrated.
pub fn migrate(record: &Record, bucket: &mut Bucket, now: u64) -> bool {
    let Bucket::Counting(held) = *bucket else { return false };
    let till = record.schedule.first_at().map_or(now, |at| now.min(at));
    if !held.is_previous {
        return false;
    }
    let (mut tokens, mut score, _) = record.migrated_counter(held);
    if record.catch_up {
        (tokens, score) = record.credit(tokens, score, till);
    }
    *bucket = if till < now {
        Bucket::Counting(record.counter(tokens, score))
    } else {
        Bucket::credited(record, tokens, score, now)
    };
    true
}
