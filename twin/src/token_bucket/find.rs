//! A bucket as of now, from any of its forms.

use topup_wire::constants::LONGEST_HOLD;

use crate::{bucket::Bucket, rest::Snapshot, stages::Stages};

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
            let (tokens, score, met) = stages.own().migrated_counter(held);
            let (mut tokens, mut score) = stages.carried(stages.own_position(), tokens, score);
            if record.catch_up || tokens >= record.capacity as i64 {
                (tokens, score) = record.credit(tokens, score, now);
            }
            (Snapshot { tokens, score, moved: met || score != held.score, stepped: None }, 0)
        }
    }
}
