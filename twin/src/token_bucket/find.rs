//! A bucket as of now, from any of its forms.

use topup_wire::{
    constants::LONGEST_HOLD,
    scripts::{InDoubt, are_whole_tokens},
};

use crate::{
    bucket::Bucket,
    counter::Counter,
    rest::{AtRest, Snapshot},
    stages::Stages,
};

/// A bucket as of now, and the instant until which it must not count.
pub(super) fn find(stages: &Stages, bucket: &Bucket, now: u64) -> (Snapshot, u64) {
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
            let (mut tokens, mut score, met) = carried_counter(stages, held);
            if record.catch_up || tokens >= record.capacity as i64 {
                (tokens, score) = record.credit(tokens, score, now);
            }
            (Snapshot { tokens, score, moved: met || score != held.score, stepped: None }, 0)
        }
    }
}

/// Tokens in doubt that the bucket does not miss. It misses them if it is the one that they were taken of.
pub(super) fn forgotten(stages: &Stages, bucket: &Bucket, in_doubt: InDoubt) -> u64 {
    let record = stages.present();
    let full_at = match *bucket {
        Bucket::AtRest(AtRest::Until { tag, full_at, .. }) if tag == record.tag() => Some(full_at),
        Bucket::Counting(held) => {
            let (tokens, score, _) = carried_counter(stages, held);
            Some(record.pace.instant(score, record.missing(tokens)))
        }
        _ => None,
    };
    let are_of_it = |full_at: u64| are_whole_tokens(record.pace, full_at.abs_diff(in_doubt.full_at));
    if in_doubt.full_at > 0 && full_at.is_some_and(are_of_it) { 0 } else { in_doubt.tokens }
}

/// The tokens and the score of a counter under the present terms, and whether takes of a bucket at rest have met it.
fn carried_counter(stages: &Stages, held: Counter) -> (i64, u64, bool) {
    let (tokens, score, met) = stages.own().migrated_counter(held);
    let (tokens, score) = stages.carried(stages.own_position(), tokens, score);
    (tokens, score, met)
}
