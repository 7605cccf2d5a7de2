//! Decisions about permits: at most so many at once.

use std::{cmp::Reverse, collections::BinaryHeap};

use topup_lab::clock::Micros;

use crate::take::Take;

/// Counts by their instants.
struct Sums(Vec<(Micros, u64)>);

// === impl Sums ===

impl Sums {
    fn of(counts: impl Iterator<Item = (Micros, u32)>) -> Self {
        let mut sums: Vec<(Micros, u64)> = counts.map(|(at, count)| (at, u64::from(count))).collect();
        sums.sort_unstable();
        let mut sum = 0;
        for (_, count) in &mut sums {
            sum += *count;
            *count = sum;
        }
        Self(sums)
    }

    /// The sum of those before `at`.
    fn before(&self, at: Micros) -> u64 {
        let count = self.0.partition_point(|(other, _)| *other < at);
        count.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

/// Which of `takes`, in the order of their answers, were certainly wrong.
pub(super) fn wrong(limit: u64, takes: &[Take]) -> Vec<bool> {
    // A permit is perhaps held from the sending to the answer of its release, and for good where that failed.
    let released = |take: &Take| take.end.filter(|end| end.tokens.is_some());
    let asked =
        Sums::of(takes.iter().filter(|take| take.may_have_taken()).map(|take| (take.sent, take.count)));
    let ended = Sums::of(takes.iter().filter_map(|take| Some((released(take)?.received, take.count))));
    // It is certainly held from its answer to the sending of its release.
    let (mut held, mut sum) = (BinaryHeap::<Reverse<(Micros, u64)>>::new(), 0);
    let judge = |take: &Take| {
        let count = u64::from(take.count);
        if take.is_denied() {
            let most = asked.before(take.received + 1) - ended.before(take.sent);
            return most + count <= limit;
        }
        while let Some(Reverse((_, count))) = held.peek().filter(|Reverse((until, _))| *until < take.received)
        {
            sum -= count;
            held.pop();
        }
        let Some(end) = take.end.filter(|_| take.is_allowed()) else { return false };
        let is_wrong = sum + count > limit;
        if !is_wrong {
            held.push(Reverse((end.sent, count)));
            sum += count;
        }
        is_wrong
    };
    takes.iter().map(judge).collect()
}
