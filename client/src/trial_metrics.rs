//! Trial metrics: counts of the decisions of limits that are on trial.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::Semaphore, task::JoinSet};
use topup_wire::{
    connection::Connection,
    counts::{Count, Counts},
    limit::{Limit, LimitName},
    scripts,
};

use crate::decision::Decision;

/// Most shadow takes of one limit in flight. Further ones are left out and counted as such.
const MAX_SHADOW_TAKES: usize = 1_024;

/// The trial metrics of one limit.
#[derive(Debug)]
pub(crate) struct TrialMetrics {
    counts: [AtomicU64; Count::ALL.len()],
    /// A permit for each further shadow take.
    pub(crate) shadow_takes: Arc<Semaphore>,
}

/// The metrics of all limits on trial, each with the counts that Redis already has.
#[derive(Debug, Default)]
pub(crate) struct TrialRegistry(Mutex<HashMap<LimitName, (Arc<TrialMetrics>, Counts)>>);

// === impl TrialMetrics ===

impl Default for TrialMetrics {
    fn default() -> Self {
        Self { counts: Default::default(), shadow_takes: Arc::new(Semaphore::new(MAX_SHADOW_TAKES)) }
    }
}

impl TrialMetrics {
    /// Counts one decision.
    pub(crate) fn add(&self, count: Count) {
        self.counts[count as usize].fetch_add(1, Relaxed);
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
        self.counts[Count::Difference as usize].fetch_add(difference, Relaxed);
        self.counts[Count::LargestDifference as usize].fetch_max(difference, Relaxed);
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for count in Count::ALL {
            counts.set(count, self.counts[count as usize].load(Relaxed));
        }
        counts
    }
}

// === impl TrialRegistry ===

impl TrialRegistry {
    /// The metrics of `limit`; `None` for a limit that is not on trial.
    pub(crate) fn of(&self, limit: &Limit) -> Option<Arc<TrialMetrics>> {
        limit.has_trial().then(|| self.lock().entry(limit.name).or_default().0.clone())
    }

    /// The counts of the limit `name` so far.
    pub(crate) fn counts(&self, name: &str) -> Counts {
        self.lock().get(name).map(|(metrics, _)| metrics.counts()).unwrap_or_default()
    }

    /// Adds new counts to those in Redis. Counts without a reply are not sent again, since Redis may have added them.
    pub(crate) async fn report(&self, connection: &Connection, deadline: Duration) {
        let mut reports = JoinSet::new();
        for (name, (metrics, reported)) in self.lock().iter_mut() {
            let counts = metrics.counts();
            let (name, new) = (*name, counts.since(reported));
            if !new.is_empty() {
                *reported = counts;
                let mut connection = connection.clone();
                reports.spawn(async move { scripts::count(&mut connection, &name, &new).await });
            }
        }
        // The next control poll finds out by itself whether Redis is away.
        let _ = tokio::time::timeout(deadline, reports.join_all()).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LimitName, (Arc<TrialMetrics>, Counts)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
