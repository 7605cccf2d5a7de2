//! The permits of one shard: what is renewed, polled for and released, and the task that does so.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot, watch};
use topup_wire::{
    keyspace::ShardKeys,
    scripts::{PermitOperation, PermitState},
};

use super::{
    kept::Kept,
    means::{Means, grouped, ids},
};
use crate::{
    machine::{Micros, PermitLease},
    shell::{Shared, clock::micros},
};

/// Between two polls of the waiters of a shard. A waiter learns of its place within it.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// Between two attempts of a renewal or a release that failed.
const RETRY: Duration = Duration::from_millis(50);
/// Most ids in one command.
const MOST_IDS: usize = 250;
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

#[derive(Debug, Default)]
struct State {
    /// By the number of the permit.
    kept: BTreeMap<u64, Kept>,
    releases: VecDeque<Release>,
    /// The instant of the next poll of waiters.
    poll_at: Micros,
    is_running: bool,
}

/// A permit to be released.
#[derive(Debug)]
struct Release {
    member: String,
    id: String,
    /// The end of attempts: the place is free by then.
    until: Micros,
    done: Option<oneshot::Sender<()>>,
}

/// The next work of a shard's task.
enum Work {
    Release(Vec<Release>),
    Renew(Vec<(u64, String, String)>),
    Sleep(Duration),
    End,
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

    /// Has releases sent again, before all others.
    fn put_back(&self, releases: Vec<Release>) {
        let mut state = self.lock();
        releases.into_iter().rev().for_each(|release| state.releases.push_front(release));
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

    /// Works until nothing is left to be kept or released.
    async fn run(self: Arc<Self>, mut means: Means, number_of: impl Fn(&str) -> Option<u64>) {
        loop {
            let work = self.lock().next_work(means.clock.now());
            match work {
                Work::End => return,
                Work::Sleep(time) => {
                    let sleep = means.clock.sleep(time);
                    tokio::select! {
                        biased;
                        () = self.sooner.notified() => {}
                        () = sleep => {}
                    }
                }
                Work::Renew(permits) => self.renew(permits, &mut means).await,
                Work::Release(releases) => self.send(releases, &mut means, &number_of).await,
            }
        }
    }

    /// Renews holders and polls for waiters, in one command.
    async fn renew(&self, permits: Vec<(u64, String, String)>, means: &mut Means) {
        let groups = grouped(permits.iter().map(|(_, member, id)| (member, id)));
        let sent = means.clock.now();
        let reply = means.ask(&self.keys, PermitOperation::Renew, &groups).await;
        let (mut state, now) = (self.lock(), means.clock.now());
        let states: HashMap<&str, PermitState> = match &reply {
            Some(reply) => ids(&groups).zip(reply.states.iter().copied()).collect(),
            None => HashMap::new(),
        };
        for (number, _, id) in &permits {
            // Released meanwhile, or not told.
            let Some(kept) = state.kept.get_mut(number) else { continue };
            match (&reply, states.get(id.as_str())) {
                (Some(reply), Some(answer)) => kept.note(*answer, reply.ttl, sent, now),
                _ => kept.not_before = now.saturating_add(micros(RETRY)),
            }
        }
        state.poll_at = now.saturating_add(micros(POLL));
    }

    /// Sends releases, and again those without an answer: Redis carries each out once.
    async fn send(
        &self,
        releases: Vec<Release>,
        means: &mut Means,
        number_of: &impl Fn(&str) -> Option<u64>,
    ) {
        let (groups, count) =
            (grouped(releases.iter().map(|release| (&release.member, &release.id))), releases.len());
        let reply = means.ask(&self.keys, PermitOperation::Release, &groups).await;
        match reply {
            Some(reply) => {
                let mut state = self.lock();
                self.unsent.send_modify(|unsent| *unsent -= count);
                for done in releases.into_iter().filter_map(|release| release.done) {
                    // Most are dropped permits, whose holders do not wait.
                    let _ = done.send(());
                }
                // Waiters of this client that have their place by this release need not wait for a poll.
                let is_own =
                    |id: &String| number_of(id).is_some_and(|number| state.kept.contains_key(&number));
                if reply.granted.iter().any(is_own) {
                    state.poll_at = 0;
                }
            }
            None => {
                let now = means.clock.now();
                let again: Vec<_> = releases.into_iter().filter(|release| release.until > now).collect();
                self.unsent.send_modify(|unsent| *unsent -= count - again.len());
                self.put_back(again);
                means.clock.sleep(RETRY).await;
            }
        }
    }
}

// === impl State ===

impl State {
    fn next_work(&mut self, now: Micros) -> Work {
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
