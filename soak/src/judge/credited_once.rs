//! Law 3: every token is credited once.

use super::{Audit, Case, Judgement, MOST};
use crate::{
    limits::{Form, TICK},
    oracle::seconds,
    plan::{Fault, Kind, Target},
    worker::{Answer, Call},
    world::CALLERS,
};

/// Part of the tokens that a bucket may lose that rests as a number, while its workers wait long for replies.
const LOST_AT_REST: f64 = 0.05;

// === impl Case ===

impl Case<'_> {
    /// Law 3: the tokens admitted are those credited, up to those of calls without an answer.
    pub(super) fn credited_once(&self, audit: &Audit, judgement: &mut Judgement) {
        let limit = self.buckets[audit.bucket].0;
        let admitted: u64 =
            self.calls_of(audit.bucket).filter_map(Call::taken).map(|taken| taken.count).sum();
        let admitted = (admitted + audit.drained) as f64;
        let unanswered = self
            .calls_of(audit.bucket)
            .filter(|call| call.answer != Answer::Denied && call.taken().is_none());
        let unanswered: u64 = unanswered.map(|call| call.count).sum();
        let killed = |(_, _, fault): &&(u64, u64, Fault)| matches!(fault.kind, Kind::Kill(Target::Worker(_)));
        let killed = self.happened.iter().filter(killed).count() as f64 * CALLERS as f64 * MOST;
        let is_ticking = limit.form == Form::Ticking;
        let least = limit.rate * seconds(audit.ended.0 - audit.began.1) - audit.left as f64;
        // A bucket that rests as a number loses parts of tokens while round trips are longer than a token time.
        let at_rest = if limit.form == Form::Resting { 2.0 + least * LOST_AT_REST } else { 0.0 };
        let slack = if is_ticking { limit.rate * (2.0 * TICK + seconds(self.stalled)) } else { 0.0 };
        let most = limit.rate * seconds(audit.ended.1 - audit.began.0) + 1.0 + limit.terms().capacity
            - limit.capacity;
        let missing = least - admitted - unanswered as f64 - killed - slack - at_rest;
        let spare = admitted - most;
        judgement.off_ledger = judgement.off_ledger.max(missing).max(spare);
        if missing > 0.0 || spare > 0.0 {
            judgement.broken.push(format!(
                "law 3: {admitted} tokens of {} were admitted, {least:.1} to {most:.1} were credited, and {unanswered} takes \
                 had no answer",
                self.name(audit.bucket)
            ));
        }
    }
}
