//! The counts of one limit.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tokio::sync::Semaphore;
use topup_wire::counts::{Count, Counts};

use super::thread_index::{MOST_THREADS, known_thread_index, thread_index};
use crate::decision::Decision;

/// Most shadow takes of one limit in flight. Further ones are left out and counted as such.
const MAX_SHADOW_TAKES: usize = 1_024;

/// The counts of one limit since the client began.
#[derive(Debug, Default)]
pub(crate) struct LimitCounts {
    /// Counts of decisions, by the index of the thread.
    threads: [Stripe; MOST_THREADS],
    /// Counts of all other threads, and trial metrics.
    shared: [AtomicU64; Count::ALL.len()],
    /// The counts that Redis has.
    handed_over: Mutex<Counts>,
    /// The counts that the recorder of `metrics` has.
    #[cfg(feature = "metrics")]
    emitted: Mutex<Counts>,
    /// A permit for each further shadow take; made for the first one.
    shadow_takes: OnceLock<Arc<Semaphore>>,
}

/// Counts of decisions that one thread writes. Aligned, so that it shares no cache line with another thread.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; 8]);

// === impl LimitCounts ===

impl LimitCounts {
    /// Counts a decision.
    #[inline]
    pub(crate) fn add_decision(&self, decision: &Decision) {
        self.add_own(count_of(decision));
    }

    /// Adds 1 to a count of decisions. Costs no atomic instruction: no other thread writes to the counters of this one.
    #[inline]
    pub(crate) fn add_own(&self, count: Count) {
        // One comparison finds out both whether the thread's index is known and whether it is its own.
        match self.threads.get(known_thread_index()) {
            Some(stripe) => stripe.add(count),
            None => self.add_first_or_shared(count),
        }
    }

    /// The first count of a thread, and all of a thread without counters of its own.
    #[cold]
    fn add_first_or_shared(&self, count: Count) {
        match self.threads.get(thread_index()) {
            Some(stripe) => stripe.add(count),
            None => self.add(count),
        }
    }

    /// Adds 1 to `count`.
    pub(crate) fn add(&self, count: Count) {
        self.shared[count as usize].fetch_add(1, Relaxed);
    }

    /// Counts the decision of the limit's candidate.
    pub(crate) fn add_candidate(&self, candidate: Decision) {
        self.add(if candidate.would_deny() { Count::CandidateDenied } else { Count::CandidateAllowed });
    }

    /// Counts the decision of the live bucket beside that of the lazy bucket.
    pub(crate) fn add_comparison(&self, live: Decision, lazy: Decision) {
        self.add(match (live.would_deny(), lazy.would_deny()) {
            (false, false) => Count::BothAllowed,
            (false, true) => Count::OnlyOurs,
            (true, false) => Count::OnlyLazy,
            (true, true) => Count::BothDenied,
        });
        let difference = live.remaining().abs_diff(lazy.remaining());
        self.shared[Count::Difference as usize].fetch_add(difference, Relaxed);
        self.shared[Count::LargestDifference as usize].fetch_max(difference, Relaxed);
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for count in Count::ALL {
            counts.set(count, self.shared[count as usize].load(Relaxed));
        }
        for stripe in &self.threads {
            for count in Count::DECISIONS {
                counts.set(count, counts.get(count) + stripe.0[count as usize].load(Relaxed));
            }
        }
        counts
    }

    /// Whether Redis does not have all counts yet.
    pub(super) fn has_new(&self) -> bool {
        !self.counts().since(&lock(&self.handed_over)).is_empty()
    }

    /// The counts that Redis does not have yet. They count as handed over from now on.
    pub(super) fn begin_hand_over(&self) -> Counts {
        advance(&self.handed_over, &self.counts())
    }

    /// Takes back that `counts` were handed over: Redis has added nothing.
    pub(super) fn undo_hand_over(&self, counts: &Counts) {
        let mut handed_over = lock(&self.handed_over);
        *handed_over = handed_over.without(counts);
    }

    /// The counts that the recorder of `metrics` does not have yet.
    #[cfg(feature = "metrics")]
    pub(super) fn begin_emission(&self) -> Counts {
        advance(&self.emitted, &self.counts())
    }

    /// A permit for each further shadow take.
    pub(crate) fn shadow_takes(&self) -> Arc<Semaphore> {
        self.shadow_takes.get_or_init(|| Arc::new(Semaphore::new(MAX_SHADOW_TAKES))).clone()
    }
}

/// Moves `known` to `counts`, and returns the increase.
fn advance(known: &Mutex<Counts>, counts: &Counts) -> Counts {
    let mut known = lock(known);
    let new = counts.since(&known);
    // Two calls at once: the later one may have read fewer.
    *known = known.largest(counts);
    new
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The count of a decision.
#[inline]
fn count_of(decision: &Decision) -> Count {
    match decision {
        Decision::Allowed { .. } => Count::Allowed,
        Decision::Denied { .. } => Count::Denied,
        Decision::Shadowed { .. } => Count::WouldDeny,
        Decision::Degraded { .. } => Count::Degraded,
    }
}

// === impl Stripe ===

impl Stripe {
    #[inline]
    fn add(&self, count: Count) {
        let counter = &self.0[count as usize % 8];
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const ALLOWED: Decision = Decision::Allowed { remaining: 1, capacity: 2 };

    #[test]
    fn threads_of_any_number_count_exactly() {
        const EACH: u64 = 2_000;
        let counts = LimitCounts::default();
        for round in 1..=3_u64 {
            // More at once than have an index of their own. The next round has other threads with the same indexes.
            thread::scope(|scope| {
                for _ in 0..2 * MOST_THREADS {
                    scope.spawn(|| (0..EACH).for_each(|_| counts.add_decision(&ALLOWED)));
                }
            });
            assert_eq!(counts.counts().get(Count::Allowed), round * 2 * MOST_THREADS as u64 * EACH);
        }
    }

    #[test]
    fn each_count_is_handed_over_once_and_again_if_redis_refused_it() {
        let counts = LimitCounts::default();
        for _ in 0..5 {
            counts.add_decision(&ALLOWED);
        }
        let first = counts.begin_hand_over();
        assert_eq!(first.get(Count::Allowed), 5);
        assert!(counts.begin_hand_over().is_empty());
        counts.add_decision(&ALLOWED);
        counts.undo_hand_over(&first);
        assert_eq!(counts.begin_hand_over().get(Count::Allowed), 6);
        assert!(counts.begin_hand_over().is_empty());
    }
}
