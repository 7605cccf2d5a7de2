//! The state of a shard's permits, and the work that is due next.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{machine::Micros, permits::kept::Kept, shell::clock::micros};

/// Between two polls of the waiters of a shard. A waiter learns of its place within it.
pub(in crate::permits) const POLL: Duration = Duration::from_millis(50);
/// Most ids in one command.
const MOST_IDS: usize = 250;

#[derive(Debug, Default)]
pub(super) struct State {
    /// By the number of the permit.
    pub(super) kept: BTreeMap<u64, Kept>,
    pub(super) releases: VecDeque<Release>,
    /// The instant of the next poll of waiters.
    pub(super) poll_at: Micros,
    pub(super) is_running: bool,
}

/// A permit to be released.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) member: String,
    pub(super) id: String,
    /// The end of attempts: the place is free by then.
    pub(super) until: Micros,
    pub(super) done: Option<oneshot::Sender<()>>,
}

/// The next work of a shard's task.
pub(super) enum Work {
    Release(Vec<Release>),
    Renew(Vec<(u64, String, String)>),
    Sleep(Duration),
    End,
}

// === impl State ===

impl State {
    pub(super) fn next_work(&mut self, now: Micros) -> Work {
        if !self.releases.is_empty() {
            let count = self.releases.len().min(MOST_IDS);
            return Work::Release(self.releases.drain(..count).collect());
        }
        let mut next = Micros::MAX;
        let mut due = false;
        for kept in self.kept.values() {
            let at = kept.due_at(self.poll_at, now).max(kept.not_before);
            due |= at <= now;
            next = next.min(at);
        }
        if due {
            // All that is due within a poll goes along.
            let soon = now.saturating_add(micros(POLL));
            let goes = |kept: &&Kept| kept.due_at(self.poll_at, now) <= soon && kept.not_before <= now;
            let permits = self.kept.iter().filter(|(_, kept)| goes(kept)).take(MOST_IDS);
            let permits = permits.map(|(number, kept)| (*number, kept.member.clone(), kept.id.clone()));
            return Work::Renew(permits.collect());
        }
        if self.kept.is_empty() {
            self.is_running = false;
            return Work::End;
        }
        Work::Sleep(Duration::from_micros(next.saturating_sub(now).clamp(1, 3_600_000_000)))
    }
}
