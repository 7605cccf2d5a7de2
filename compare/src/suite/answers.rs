//! Decisions compared one by one, where each has one right answer.

use topup_lab::clock::Micros;

use crate::{
    limiter::Limiter,
    take::{Take, by_bucket},
    traffic::{CERTAIN_MARGIN, Traffic, certain_plan},
};

/// The number of wrong answers in `takes`, and all answers as one number (FNV-1a, in hexadecimal).
///
/// A take that was answered too late has no certain answer, and neither have those of its bucket after it. They are not
/// counted, and there is no number of all answers then.
pub(super) fn compare(
    traffic: &Traffic,
    seed: u64,
    limiter: Limiter,
    begin: Micros,
    takes: &[Take],
) -> (u64, Option<String>) {
    let plan = certain_plan(traffic, seed, limiter.ideal());
    let (mut otherwise, mut hash, mut is_late) = (0, 0xcbf2_9ce4_8422_2325_u64, false);
    for bucket in by_bucket(takes) {
        let right = bucket.first().and_then(|take| plan.get(take.bucket as usize));
        for (take, (arrival, allowed)) in bucket.iter().zip(right.into_iter().flatten()) {
            if take.received > begin + arrival.at + CERTAIN_MARGIN {
                is_late = true;
                break;
            }
            otherwise += u64::from(take.is_allowed() != *allowed);
            hash = (hash ^ u64::from(take.is_allowed())).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (otherwise, (!is_late).then(|| format!("{hash:016x}")))
}
