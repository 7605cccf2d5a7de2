//! The permits of one shard: those that are renewed, polled for and released.

mod task;
mod work;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use topup_wire::keyspace::ShardKeys;

use super::{kept::Kept, means::Means};
use crate::{
    machine::{Micros, PermitLease},
    shell::{Shared, clock::micros},
};
pub(super) use work::POLL;
use work::{Release, State};

/// Most releases that wait to be sent. The places of further ones are free when their time is over.
const MOST_RELEASES: usize = 65_536;

/// The permits of a shard.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) keys: ShardKeys,
    state: Mutex<State>,
    /// Notified of work that is due before the task's next look.
    sooner: Notify,
    /// Releases that have no answer yet.
    unsent: watch::Sender<usize>,
}

// === impl Shard ===

impl Shard {
    pub(super) fn new(keys: ShardKeys) -> Self {
        Self { keys, state: Mutex::default(), sooner: Notify::new(), unsent: watch::Sender::new(0) }
    }

    /// Keeps the permit `number` of the key `member` alive from now on.
    pub(super) fn keep(
        self: &Arc<Self>,
        number: u64,
        member: &str,
        id: &str,
        lease: PermitLease,
        shared: &Shared,
    ) -> watch::Receiver<PermitLease> {
        let (sender, receiver) = watch::channel(lease);
        let kept = Kept { member: member.to_owned(), id: id.to_owned(), lease: sender, not_before: 0 };
        let mut state = self.lock();
        state.kept.insert(number, kept);
        if matches!(lease, PermitLease::Waiting { .. }) {
            let soon = shared.clock.now().saturating_add(micros(POLL));
            state.poll_at = if state.poll_at < shared.clock.now() { soon } else { state.poll_at.min(soon) };
        }
        self.wake(state, shared);
        receiver
    }

    /// Sets the lease of a permit that is kept, and its waiter polls again.
    pub(super) fn wait_again(self: &Arc<Self>, number: u64, lease: PermitLease) {
        if let Some(kept) = self.lock().kept.get(&number) {
            kept.lease.send_replace(lease);
        }
        self.sooner.notify_one();
    }

    /// Has the permit released, until its time is over at `until`. Returns at once.
    pub(super) fn release(
        self: &Arc<Self>,
        number: u64,
        member: &str,
        id: &str,
        until: Micros,
        shared: &Shared,
    ) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let mut state = self.lock();
        state.kept.remove(&number);
        if state.releases.len() < MOST_RELEASES {
            let (member, id) = (member.to_owned(), id.to_owned());
            state.releases.push_back(Release { member, id, until, done: Some(done) });
            self.unsent.send_modify(|unsent| *unsent += 1);
        }
        self.wake(state, shared);
        receiver
    }

    /// Returns once every release has an answer, or its time is over.
    pub(super) async fn flush(&self) {
        // The sender is this shard's own.
        let _ = self.unsent.subscribe().wait_for(|unsent| *unsent == 0).await;
    }

    fn wake(self: &Arc<Self>, mut state: MutexGuard<'_, State>, shared: &Shared) {
        if std::mem::replace(&mut state.is_running, true) {
            drop(state);
            return self.sooner.notify_one();
        }
        drop(state);
        let means =
            Means { connection: shared.connection(), clock: shared.clock.clone(), deadline: shared.deadline };
        let keeper = shared.permits.clone();
        let shard = self.clone();
        shared.runtime.spawn(async move { shard.run(means, |id| keeper.number_of(id)).await });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic elsewhere, the state is at worst out of date.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
