//! Law 2, in the quiet tail of a run.

use super::{Case, Judgement};
use crate::{
    limits::{Form, Limit, TICK},
    oracle::{Taken, ideal, seconds},
    plan::Kind,
    worker::{Answer, Call, What},
};

// === impl Case ===

impl Case<'_> {
    /// Law 2, in the quiet tail: from its first token on, a bucket gives what a perfect one gives that is empty then.
    pub(super) fn never_starved(&self, bucket: usize, limit: &Limit, judgement: &mut Judgement) {
        let is_changed = limit.form == Form::Changing
            && self.happened.iter().any(|(_, _, fault)| fault.kind == Kind::Reload);
        if is_changed || limit.form == Form::Window || judgement.is_void {
            return;
        }
        let tail =
            || self.calls_of(bucket).filter(|call| call.sent > self.quiet && call.received < self.tail_end);
        let Some(first) = tail().filter_map(Call::taken).map(|taken| taken.received).min() else {
            judgement.broken.push(format!("law 2: {} gives nothing after all faults", self.name(bucket)));
            return;
        };
        let wanted: Vec<Taken> = tail().filter(|call| call.what == What::Take).map(Call::all).collect();
        let ideal = ideal(&wanted, first, limit.terms()) as f64;
        let given: u64 = tail().filter_map(Call::taken).map(|taken| taken.count).sum();
        let lost = |call: &&Call| {
            call.answer != Answer::Done && call.answer != Answer::Denied || call.what == What::Refund
        };
        let lost: u64 = tail().filter(lost).map(|call| call.count).sum();
        // Leases that end lose what other workers have overtaken.
        let share = if limit.form == Form::Leased { 0.5 } else { 0.95 };
        let late =
            if limit.form == Form::Ticking { limit.rate * (TICK + seconds(self.stalled)) } else { 0.0 };
        let least = ideal * share - late - lost as f64 - 3.0;
        if (given as f64) < least {
            judgement.broken.push(format!(
                "law 2: {} gives {given} tokens after all faults, a perfect bucket {ideal}, at least {least:.0} are due",
                self.name(bucket)
            ));
        }
    }
}
