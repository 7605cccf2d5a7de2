//! The counts of runs that break no law.

use topup_sim::{Counts, Plan, Stream, run, story};

#[track_caller]
pub(crate) fn counts_of(plan: &Plan) -> Counts {
    let outcome = run(plan, None);
    let told = outcome.broken.map(|broken| story(plan, None, &broken));
    assert!(told.is_none(), "{}", told.unwrap_or_default());
    outcome.counts
}

/// Takes of up to `most` tokens each, a mean of `gap` µs apart, by any of the workers of `plan`, for `lasts`.
#[track_caller]
pub(crate) fn asked_of(
    mut plan: Plan,
    (most, gap): (u64, u64),
    lasts: u64,
    lease: Option<(u64, u64)>,
) -> Counts {
    (plan.lease, plan.lasts) = (lease, lasts);
    plan.traffic.push(Stream::Takes { gap, most });
    counts_of(&plan)
}
