//! Promises of time: no call hangs, and no worker stays without decisions.

use super::{Case, Judgement};
use crate::{
    limits::Form,
    plan::{Kind, Target},
    worker::{Answer, Call, DEADLINE, What},
};

/// A call may end so many µs after its deadline.
const LATE: u64 = 20_000;
/// A worker uses Redis again so many µs after its return.
const RECOVERY: u64 = 1_000_000;

// === impl Case ===

impl Case<'_> {
    /// One call: in time, and with no error but one that may pass.
    pub(super) fn look_at(&self, call: &Call, judgement: &mut Judgement) {
        let was_stopped = self.happened.iter().any(|(from, until, fault)| {
            fault.kind == Kind::Stop(Target::Worker(call.worker))
                && call.sent <= *until
                && *from <= call.received
        });
        let is_leased = self.buckets[call.bucket].0.form == Form::Leased;
        let in_hand = if is_leased { 200_000 } else { 10_000 };
        let allowed = DEADLINE.as_micros() as u64 + if call.what == What::Refund { in_hand } else { 0 };
        let late = (call.received - call.sent) as i64 - (allowed + call.stalled) as i64;
        if !was_stopped {
            judgement.slowest = judgement.slowest.max(late);
            if late > LATE as i64 && !judgement.is_void {
                judgement
                    .broken
                    .push(format!("hung: {late} µs over its deadline at {}: {call:?}", self.ms(call.sent)));
            }
        }
        match &call.answer {
            Answer::Failed(error) => {
                judgement
                    .broken
                    .push(format!("an error that does not pass at {}: {error}", self.ms(call.sent)));
            }
            Answer::Transient(_) => judgement.undecided += 1,
            Answer::Done if call.what == What::Take => judgement.admitted += call.count,
            _ => {}
        }
    }

    /// After all faults, no worker is without a decision for longer than a second.
    pub(super) fn recovers(&self, worker: usize, judgement: &mut Judgement) {
        let decided = |call: &&Call| matches!(call.answer, Answer::Done | Answer::Denied);
        let calls = self.calls.iter().filter(|call| call.worker == worker).filter(decided);
        let mut instants: Vec<u64> = calls.map(|call| call.received).filter(|at| *at > self.quiet).collect();
        instants.extend([self.quiet, self.tail_end.max(self.quiet)]);
        instants.sort_unstable();
        let gap = instants.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        judgement.recovery = judgement.recovery.max(gap);
        if gap > RECOVERY && !judgement.is_void {
            judgement.broken.push(format!("worker {worker} had no decision for {gap} µs after all faults"));
        }
    }
}
