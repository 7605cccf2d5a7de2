//! Law 1, and the tokens that docs/reliability.md allows beyond it for each fault.

use super::{Case, Judgement, MOST, STANDS_STILL};
use crate::{
    limits::{Form, LEASE, Limit},
    oracle::{Supply, Taken, fullest},
    plan::{Kind, Target},
    worker::{Answer, Call, What},
    world::CALLERS,
};

/// After a loss of data, as many tokens once more may be admitted for so many µs.
const TWICE: u64 = 1_400_000;
/// A settle repays tokens in doubt within so many µs of a fault's end.
const REPAID: u64 = 2_000_000;

// === impl Case ===

impl Case<'_> {
    /// Law 1.
    pub(super) fn never_over(&self, bucket: usize, limit: &Limit, judgement: &mut Judgement) {
        let taken: Vec<Taken> = self.calls_of(bucket).filter_map(Call::taken).collect();
        let back =
            self.calls_of(bucket).filter(|call| call.what == What::Refund && call.answer != Answer::Denied);
        let back = back.map(|call| Supply {
            from: call.sent,
            // Without an answer, it may be carried out when the fault is over.
            until: if call.answer == Answer::Done { call.received } else { call.received + REPAID },
            tokens: call.count as f64,
        });
        let back: Vec<Supply> = back.collect();
        let raw = fullest(&taken, &back, limit.terms());
        let supplies: Vec<Supply> = back.into_iter().chain(self.pardons(limit)).collect();
        let found = fullest(&taken, &supplies, limit.terms());
        let before = judgement.excess.unwrap_or((f64::NEG_INFINITY, f64::NEG_INFINITY));
        judgement.excess = Some((before.0.max(raw.excess), before.1.max(found.excess)));
        // A µs of Redis's clock and one of ours end at different instants.
        if found.excess > 0.01 {
            judgement.broken.push(format!(
                "law 1: {:.2} tokens too many of {} from {} to {}",
                found.excess,
                self.name(bucket),
                self.ms(found.from),
                self.ms(found.until)
            ));
        }
    }

    /// Tokens that docs/reliability.md allows beyond law 1 for each fault.
    fn pardons(&self, limit: &Limit) -> Vec<Supply> {
        let lease = if limit.form == Form::Leased { LEASE } else { 0.0 };
        let in_flight = CALLERS as f64 * MOST + lease;
        let mut pardons = Vec::new();
        for &(from, until, fault) in self.happened {
            if fault.kind == Kind::Kill(Target::Redis) && !self.plan.keeps_data {
                pardons.push(Supply { from, until: until + TWICE, tokens: 2.0 * limit.capacity });
            }
            if let Some(worker) = fault.kind.late_worker((until - from) / 1_000) {
                let workers = if worker.is_some() { 1 } else { self.plan.workers };
                pardons.push(Supply { from, until: until + REPAID, tokens: workers as f64 * in_flight });
            }
        }
        if self.stalled >= STANDS_STILL {
            let tokens = self.plan.workers as f64 * in_flight;
            pardons.push(Supply { from: 0, until: u64::MAX, tokens });
        }
        pardons
    }
}
