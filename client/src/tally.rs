//! What this worker counts of limits that are being tried out.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::task::JoinSet;
use topup_wire::{
    connection::Connection,
    counts::{Count, Counts},
    limit::{Limit, LimitName},
    scripts,
};

/// Questions of one limit to be under way beside its own takes: more of them than Redis answers are not asked.
const MOST_ASIDE: usize = 1_024;

/// What is counted of one limit.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: [AtomicU64; Count::ALL.len()],
    aside: AtomicUsize,
}

/// What is counted of all limits, and what of it Redis has been told.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<HashMap<LimitName, (Arc<Tally>, Counts)>>);

/// A question that is under way beside a take.
#[derive(Debug)]
pub(crate) struct Aside(Arc<Tally>);

// === impl Tally ===

impl Tally {
    pub(crate) fn note(&self, count: Count) {
        self.counts[count as usize].fetch_add(1, Relaxed);
    }

    /// Takes note of a difference of so many tokens.
    pub(crate) fn note_difference(&self, tokens: u64) {
        self.counts[Count::Difference as usize].fetch_add(tokens, Relaxed);
        self.counts[Count::LargestDifference as usize].fetch_max(tokens, Relaxed);
    }

    /// Room for a question beside a take, if there is any.
    pub(crate) fn aside(self: &Arc<Self>) -> Option<Aside> {
        let room = self.aside.fetch_add(1, Relaxed) < MOST_ASIDE;
        // Gives the room back by itself, also where there was none.
        let aside = Aside(self.clone());
        room.then_some(aside)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for count in Count::ALL {
            counts.set(count, self.counts[count as usize].load(Relaxed));
        }
        counts
    }
}

// === impl Tallies ===

impl Tallies {
    /// Where `limit` is counted; nowhere, when it is in force for all and nothing is tried beside it.
    pub(crate) fn of(&self, limit: &Limit) -> Option<Arc<Tally>> {
        limit.has_trial().then(|| self.lock().entry(limit.name).or_default().0.clone())
    }

    /// What was counted of the limit `name`.
    pub(crate) fn counts(&self, name: &str) -> Counts {
        self.lock().get(name).map(|(tally, _)| tally.counts()).unwrap_or_default()
    }

    /// Tells Redis what has come since it was last told. What it gives no answer to is not told again: it may have heard.
    pub(crate) async fn tell(&self, connection: &Connection, deadline: Duration) {
        let mut news = Vec::new();
        for (name, (tally, told)) in self.lock().iter_mut() {
            let counts = tally.counts();
            let more = counts.since(told);
            if !more.is_empty() {
                news.push((*name, more));
                *told = counts;
            }
        }
        let mut telling = JoinSet::new();
        for (name, more) in news {
            let mut connection = connection.clone();
            telling.spawn(async move { scripts::count(&mut connection, &name, &more).await });
        }
        // The next look finds out by itself whether Redis is away.
        let _ = tokio::time::timeout(deadline, telling.join_all()).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LimitName, (Arc<Tally>, Counts)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Aside ===

impl Aside {
    pub(crate) fn tally(&self) -> &Tally {
        &self.0
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.aside.fetch_sub(1, Relaxed);
    }
}
