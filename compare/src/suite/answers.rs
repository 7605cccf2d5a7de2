//! Decisions compared one by one, where each has one right answer.

use crate::{
    limiter::Limiter,
    take::{Take, by_bucket},
    traffic::{Traffic, certain_plan},
};

/// The number of wrong answers in `takes`, and all answers as one number (FNV-1a, in hexadecimal).
pub(super) fn compare(traffic: &Traffic, seed: u64, limiter: Limiter, takes: &[Take]) -> (u64, String) {
    let plan = certain_plan(traffic, seed, limiter.ideal());
    let (mut otherwise, mut hash) = (0, 0xcbf2_9ce4_8422_2325_u64);
    for bucket in by_bucket(takes) {
        let right = bucket.first().and_then(|take| plan.get(take.bucket as usize));
        for (take, (_, allowed)) in bucket.iter().zip(right.into_iter().flatten()) {
            otherwise += u64::from(take.is_allowed() != *allowed);
            hash = (hash ^ u64::from(take.is_allowed())).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (otherwise, format!("{hash:016x}"))
}
