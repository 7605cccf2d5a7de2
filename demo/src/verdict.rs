//! What was allowed, beside what a perfect limiter would have allowed.

use crate::{
    budget::Budget,
    change::Published,
    clock::Micros,
    law::{Worst, worst_window},
    plan::{LIMITS, Limit, RAISED, RAISED_RATE},
    protocol::BucketId,
    tally::Tally,
};

/// Asked for more than its rate, a limit gives at least this share of it; asked for less, of what was asked. The rest is what a busy machine may lose at
/// the end, between a token's coming and the next asker.
const SHARE: f64 = 0.97;

/// How one limit has fared.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) limit: Limit,
    /// One for each rate.
    pub(crate) phases: Vec<Phase>,
    /// The worst window of all its buckets, and of which; `None` when nothing was allowed at all.
    pub(crate) worst: Option<(BucketId, Worst)>,
}

/// A stretch of time at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phase {
    /// Tokens a second, for each bucket.
    pub(crate) rate: u64,
    pub(crate) lasted: Micros,
    pub(crate) allowed: u64,
    /// What a perfect limiter would have allowed: capacity at the start and every token as it comes, or all that was
    /// asked where that is less than the rate.
    pub(crate) ideal: f64,
}

/// When the workers asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) begun: Micros,
    pub(crate) ended: Micros,
    /// When the rate was raised, if it was.
    pub(crate) raised: Option<Published>,
}

/// Judges every limit.
pub(crate) fn judge(tally: &Tally, times: Times) -> Vec<Verdict> {
    LIMITS.map(|limit| Verdict::of(limit, tally, times)).into()
}

// === impl Verdict ===

impl Verdict {
    fn of(limit: Limit, tally: &Tally, times: Times) -> Self {
        let raised = times.raised.filter(|_| limit.name == RAISED);
        // The law binds what nobody could have been allowed yet: so the new rate counts from the first instant on at
        // which it may have been in force. What is owed counts from the first at which it certainly was.
        let mut budget = Budget::new(&limit);
        if let Some(published) = raised {
            budget = budget.then(published.old_until, RAISED_RATE);
        }
        let ends = raised.map(|published| published.new_from).into_iter().chain([times.ended]);
        let rates = [limit.rate, RAISED_RATE];

        let (mut phases, mut from) = (Vec::new(), times.begun);
        for (until, rate) in ends.zip(rates) {
            let mut phase = Phase { rate, lasted: until.saturating_sub(from), allowed: 0, ideal: 0.0 };
            for bucket in limit.buckets() {
                let takes = tally.takes(&bucket);
                phase.allowed +=
                    takes.iter().filter(|take| from < take.received && take.received <= until).count() as u64;
                let first = takes.iter().map(|take| take.sent).min().unwrap_or(times.begun);
                let full = if from == times.begun { limit.capacity as f64 } else { 0.0 };
                phase.ideal += if limit.load > 1.0 {
                    full + Budget::new(&Limit { rate, ..limit.clone() }).credit(first.max(from), until)
                } else {
                    tally.asked(&bucket) as f64
                };
            }
            phases.push(phase);
            from = until;
        }
        let worst =
            limit.buckets().into_iter().filter_map(|id| Some((worst_window(tally.takes(&id), &budget)?, id)));
        let worst = worst.max_by(|(a, _), (b, _)| (a.excess - a.room).total_cmp(&(b.excess - b.room)));
        Self { limit, phases, worst: worst.map(|(worst, id)| (id, worst)) }
    }

    pub(crate) fn allowed(&self) -> u64 {
        self.phases.iter().map(|phase| phase.allowed).sum()
    }

    pub(crate) fn ideal(&self) -> f64 {
        self.phases.iter().map(|phase| phase.ideal).sum()
    }

    /// Never more than the law has room for, in no window of no bucket.
    pub(crate) fn never_over(&self) -> bool {
        self.worst.as_ref().is_none_or(|(_, worst)| worst.held())
    }

    /// What the law asks for: its share, but for the token each bucket may hold when the workers end.
    pub(crate) fn least(&self) -> f64 {
        SHARE * self.ideal() - self.limit.buckets().len() as f64
    }

    /// No less than that.
    pub(crate) fn never_starved(&self) -> bool {
        self.allowed() as f64 >= self.least()
    }
}

// === impl Phase ===

impl Phase {
    pub(crate) fn ratio(&self) -> f64 {
        self.allowed as f64 / self.ideal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::SECOND,
        protocol::{Decided, Outcome, Report},
    };

    /// `api` allows its capacity at once and then a take every `gap` of 10 s, the rate being raised at 5 s.
    fn after(gap: impl Fn(Micros) -> Micros) -> Verdict {
        let mut tally = Tally::default();
        let mut take = |at| {
            let decided = Decided { sent: at, received: at + 1, remaining: 0, outcome: Outcome::Allowed };
            tally.note(Report::Took(LIMITS[0].buckets()[0].clone(), decided));
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
        judge(&tally, times).swap_remove(0)
    }

    #[test]
    fn a_perfect_limiter_is_let_off() {
        let verdict = after(|at| if at < 6 * SECOND { 20_000 } else { 5_000 });
        assert!(verdict.never_over() && verdict.never_starved(), "{verdict:?}");
        let [first, second] = verdict.phases[..] else { panic!("{verdict:?}") };
        assert_eq!((first.rate, first.lasted, first.ideal), (50, 5 * SECOND, 350.0));
        assert_eq!((second.rate, second.lasted, second.ideal), (200, 5 * SECOND, 1_000.0));
        assert!((first.ratio() - 1.0).abs() < 0.01 && (second.ratio() - 1.0).abs() < 0.01, "{verdict:?}");
    }

    #[test]
    fn a_rate_raised_too_early_is_found() {
        let verdict = after(|at| if at < 5 * SECOND { 20_000 } else { 5_000 });
        assert!(!verdict.never_over() && verdict.never_starved(), "{verdict:?}");
    }

    #[test]
    fn a_rate_never_raised_is_found() {
        let verdict = after(|_| 20_000);
        assert!(verdict.never_over() && !verdict.never_starved(), "{verdict:?}");
    }

    #[test]
    fn a_limit_that_allows_nothing_is_found() {
        let times = Times { begun: SECOND, ended: 2 * SECOND, raised: None };
        let verdicts = judge(&Tally::default(), times);
        assert!(
            verdicts.iter().all(|verdict| verdict.never_starved() == (verdict.limit.load < 1.0)),
            "{verdicts:?}"
        );
    }
}
