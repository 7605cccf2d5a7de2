//! The twins of `refill.lua` and `carry.lua`.

use super::{Bucket, Held, NEVER, Record, STRIDE};

/// Whether a pass of `refill.lua` is for a bucket; with `all`, however far from full it is.
pub fn is_due(record: &Record, held: Held, all: bool, now: u64) -> bool {
    if held.former || held.score > now + 2 {
        return all && !held.former;
    }
    if record.pace.n == 0 {
        return held.score < record.last_filled(now) && held.score + record.tick <= now;
    }
    let stride = if all { 1 } else { STRIDE.pow(held.distance) };
    held.score + record.period() * stride <= now
}

/// `refill.lua`, for one bucket: whether it was due, however far from full, and so credited.
pub fn refill(record: &Record, bucket: &mut Bucket, now: u64) -> bool {
    let Bucket::Counting(held) = *bucket else { return false };
    if !is_due(record, held, true, now) {
        return false;
    }
    let (tokens, score) = record.credit(record.counted(held.tokens).0, held.score, now);
    *bucket = record.stored(tokens, score, now);
    true
}

/// When the next bucket is due, for a `refill.lua` that has left none that is.
pub fn again(record: &Record, buckets: impl Iterator<Item = Held>, now: u64) -> u64 {
    if record.pace.n == 0 {
        return if record.fills > now { record.fills } else { now + record.tick };
    }
    let due = |held: Held| held.score + record.period() * STRIDE.pow(held.distance);
    buckets.filter(|held| !held.former).map(due).fold(NEVER, u64::min)
}

/// `carry.lua`, for one bucket: whether it was carried over.
pub fn carry(record: &Record, bucket: &mut Bucket, now: u64) -> bool {
    let Bucket::Counting(held) = *bucket else { return false };
    if !held.former {
        return false;
    }
    let (mut tokens, mut score, _) = record.carried_counter(held);
    if record.catch_up {
        (tokens, score) = record.credit(tokens, score, now);
    }
    *bucket = record.stored(tokens, score, now);
    true
}
