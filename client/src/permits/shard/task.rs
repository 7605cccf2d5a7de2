//! The task of a shard: it renews permits, polls for waiters and releases.

use std::{collections::HashMap, sync::Arc, time::Duration};

use topup_wire::scripts::{PermitOperation, PermitState};

use super::{
    Shard,
    work::{POLL, Release, Work},
};
use crate::{
    permits::means::{Means, grouped, ids},
    shell::clock::micros,
};

/// Between two attempts of a renewal or a release that failed.
const RETRY: Duration = Duration::from_millis(50);

// === impl Shard ===

impl Shard {
    /// Works until nothing is left to be kept or released.
    pub(super) async fn run(self: Arc<Self>, mut means: Means, number_of: impl Fn(&str) -> Option<u64>) {
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

    /// Has releases sent again, before all others.
    fn put_back(&self, releases: Vec<Release>) {
        let mut state = self.lock();
        releases.into_iter().rev().for_each(|release| state.releases.push_front(release));
    }
}
