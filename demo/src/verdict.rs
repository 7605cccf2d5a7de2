//! The laws, checked for each limit.

use topup_lab::clock::Micros;

use crate::{
    change::Published,
    law::{Budget, worst_excess},
    plan::{LIMITS, Limit, RAISED},
    record::Record,
};

/// Part of the ideal that a limit must allow. A busy machine may lose the rest at the end, between a token's coming and the
/// next take.
const SHARE: f64 = 0.97;
/// Tokens above the first law that count as none: an expiry of Redis that is 2 ms late, see docs/design/exactness.md.
const LATE_EXPIRY: f64 = 0.2;

/// One limit beside a perfect limiter.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) limit: Limit,
    /// One for each rate.
    pub(crate) phases: Vec<Phase>,
    /// Excess of the worst window of all its buckets, in tokens; −∞ if nothing was allowed.
    pub(crate) excess: f64,
}

/// A time at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phase {
    pub(crate) lasted: Micros,
    pub(crate) allowed: u64,
    /// Takes that a perfect limiter would have allowed: capacity at the start and every token as it comes. If less than the
    /// rate is asked for, all that was asked.
    pub(crate) ideal: f64,
}

/// Instants of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) begun: Micros,
    pub(crate) ended: Micros,
    /// The raise of a rate, if there was one.
    pub(crate) raised: Option<Published>,
}

/// Judges every limit.
pub(crate) fn judge(record: &Record, times: Times) -> Vec<Verdict> {
    LIMITS.map(|limit| Verdict::of(limit, record, times)).into()
}

/// Laws that did not hold, and of which limits.
pub(crate) fn broken(verdicts: &[Verdict]) -> Vec<String> {
    let broken = |law: &str, held: fn(&Verdict) -> bool| {
        let names = verdicts.iter().filter(|verdict| !held(verdict)).map(|verdict| verdict.limit.name);
        let names: Vec<_> = names.collect();
        (!names.is_empty()).then(|| format!("{law} ({})", names.join(", ")))
    };
    let laws = [broken("never over", Verdict::never_over), broken("never starved", Verdict::never_starved)];
    laws.into_iter().flatten().collect()
}

// === impl Verdict ===

impl Verdict {
    fn of(limit: Limit, record: &Record, times: Times) -> Self {
        let raised = times.raised.filter(|_| limit.name == RAISED.name);
        // The first law counts the new rate from the first instant at which it may have been in force. The second counts
        // it from the first instant at which it certainly was.
        let mut budget = Budget::new(limit.capacity, limit.rate);
        if let Some(published) = raised {
            budget = budget.then(published.old_until, RAISED.rate);
        }
        let mut phases =
            vec![(times.begun, raised.map_or(times.ended, |raised| raised.new_from), limit.rate)];
        phases.extend(raised.map(|raised| (raised.new_from, times.ended, RAISED.rate)));
        let phases = phases.into_iter().map(|(from, until, rate)| {
            let mut phase = Phase { lasted: until.saturating_sub(from), allowed: 0, ideal: 0.0 };
            for bucket in limit.buckets() {
                let takes = record.takes(bucket);
                let inside = takes.iter().filter(|take| from < take.received && take.received <= until);
                phase.allowed += inside.count() as u64;
                let first = takes.iter().map(|take| take.sent).min().unwrap_or(times.begun);
                let full = if from == times.begun { limit.capacity } else { 0 };
                phase.ideal += if limit.load > 1.0 {
                    full as f64 + Budget::new(0, rate).credit(first.max(from), until)
                } else {
                    record.asked(bucket) as f64
                };
            }
            phase
        });
        let phases = phases.collect();
        let excess = limit.buckets().map(|bucket| worst_excess(record.takes(bucket), &budget));
        let excess = excess.fold(f64::NEG_INFINITY, f64::max);
        Self { limit, phases, excess }
    }

    fn never_over(&self) -> bool {
        self.excess <= LATE_EXPIRY
    }

    fn never_starved(&self) -> bool {
        let allowed: u64 = self.phases.iter().map(|phase| phase.allowed).sum();
        let ideal: f64 = self.phases.iter().map(|phase| phase.ideal).sum();
        // Each bucket may hold a token when the workers end.
        allowed as f64 >= SHARE * ideal - self.limit.buckets().count() as f64
    }
}

#[cfg(test)]
mod tests {
    use topup_lab::clock::SECOND;

    use super::*;
    use crate::protocol::{Answer, Report};

    /// The verdict on 10 s of `api`. It allows its capacity at once, and then a take every `gap`. The rate is raised at 5 s.
    fn after(gap: impl Fn(Micros) -> Micros) -> Verdict {
        let mut record = Record::new();
        let mut take = |at| {
            let answer = Answer::Allowed;
            record.add(Report { bucket: 0, sent: at, received: at + 1, answer });
        };
        let begun = SECOND;
        (0..LIMITS[0].capacity).for_each(|_| take(begun));
        let mut at = begun;
        while at + gap(at) < begun + 10 * SECOND {
            at += gap(at);
            take(at);
        }
        let raised = Published { old_until: begun + 5 * SECOND - 2_000, new_from: begun + 5 * SECOND };
        let times = Times { begun, ended: begun + 10 * SECOND, raised: Some(raised) };
        judge(&record, times).swap_remove(0)
    }

    #[test]
    fn a_perfect_limiter_is_let_off() {
        let verdict = after(|at| if at < 6 * SECOND { 20_000 } else { 5_000 });
        assert!(verdict.never_over() && verdict.never_starved(), "{verdict:?}");
        let [first, second] = verdict.phases[..] else { panic!("{verdict:?}") };
        assert_eq!((first.lasted, first.ideal), (5 * SECOND, 350.0));
        assert_eq!((second.lasted, second.ideal), (5 * SECOND, 1_000.0));
        assert!(
            (349..=351).contains(&first.allowed) && (998..=1_000).contains(&second.allowed),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_rate_raised_too_early_is_found() {
        let verdict = after(|at| if at < 5 * SECOND { 20_000 } else { 5_000 });
        assert!(!verdict.never_over() && verdict.never_starved(), "{verdict:?}");
        assert_eq!(broken(&[verdict]), ["never over (api)"]);
    }

    #[test]
    fn a_rate_never_raised_is_found() {
        let verdict = after(|_| 20_000);
        assert!(verdict.never_over() && !verdict.never_starved(), "{verdict:?}");
    }

    #[test]
    fn a_limit_that_allows_nothing_is_found() {
        let times = Times { begun: SECOND, ended: 2 * SECOND, raised: None };
        let verdicts = judge(&Record::new(), times);
        assert_eq!(broken(&verdicts), ["never starved (api, mail, user, login)"]);
    }
}
