//! The judgement of a run: every law, with the bounds that docs/reliability.md states for its faults.

mod case;
mod credited_once;
mod in_time;
mod judgement;
mod never_over;
mod never_starved;

pub use self::{
    case::{Audit, Case},
    judgement::Judgement,
};

/// A machine that stands still for so many µs makes faults of its own.
const STANDS_STILL: u64 = 125_000;
/// Most tokens of one take.
const MOST: f64 = 2.0;

/// Judges a run.
pub fn judge(case: &Case<'_>) -> Judgement {
    let mut judgement = Judgement {
        calls: case.calls.len(),
        is_void: case.stalled >= STANDS_STILL,
        faults: case.happened.len(),
        slowest: i64::MIN,
        off_ledger: f64::NEG_INFINITY,
        ..Judgement::default()
    };
    for call in case.calls {
        case.look_at(call, &mut judgement);
    }
    for worker in 0..case.plan.workers {
        case.recovers(worker, &mut judgement);
    }
    for (bucket, (limit, _)) in case.buckets.iter().enumerate() {
        case.never_over(bucket, limit, &mut judgement);
        case.never_starved(bucket, limit, &mut judgement);
    }
    for audit in case.audits {
        case.credited_once(audit, &mut judgement);
    }
    judgement
}
