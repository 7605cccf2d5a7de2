//! The keys that are assigned outside of the config, by hand or by sources, as far as this worker knows them. It has filters
//! for each limit, and the last changes.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::Notify;
use topup_wire::{
    assignments::{KeyFilter, Shape},
    connection::Connection,
    limit::LimitName,
    reply::Polled,
    scripts,
};

use super::{Limits, asking::Asking, clock::Clock};
use crate::{machine::Micros, say::say};

/// Changes that are remembered one by one. After more, every assigned key is looked up again.
const MOST_RECENT: usize = 4_096;
/// A worker trusts this knowledge for so long after the sending of the last answered poll, in µs. A change is announced
/// for longer (`PLANS_AHEAD` in topup-wire).
const TRUST: Micros = 700_000;
/// The longest time for reading filters. One of a million keys has 1.3 MB.
const READING: Duration = Duration::from_secs(2);

/// The keys assigned outside of the config, for all clones of a client.
#[derive(Debug, Default)]
pub(crate) struct KeyPlans {
    /// The version in Redis, as last read.
    version: AtomicU64,
    /// Counts changes of this knowledge.
    changes: AtomicU64,
    trusted_until: AtomicU64,
    cached: RwLock<Cached>,
    /// Told of each change of this knowledge, and of each end of mistrust.
    pub(crate) news: Notify,
    said_forbidden: AtomicBool,
    /// The keys that are asked for now.
    pub(crate) asking: Asking,
}

#[derive(Debug, Default)]
struct Cached {
    limits: HashMap<LimitName, (Shape, KeyFilter)>,
    /// The version of the last change of a key, for keys that changed after `recent_since`.
    recent: HashMap<(LimitName, String), u64>,
    recent_since: u64,
}

/// The assignments of a key, as far as they are known without asking Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownAssigned {
    /// The key is not assigned.
    None,
    /// The knowledge as of that version is still true.
    Unchanged,
    /// Redis has to be asked, in these arrangements.
    Ask(Shapes),
}

/// The arrangements that may have a key: of assignments by hand, and of those by the limit's source.
pub(crate) type Shapes = [Option<Shape>; 2];

// === impl KeyPlans ===

impl KeyPlans {
    /// Counts changes of this knowledge.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// The version of the assignments, as last read.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// End of the trust in this knowledge: no change that is unknown here takes force before.
    pub(crate) fn trusted_until(&self) -> Micros {
        self.trusted_until.load(Relaxed)
    }

    /// The assignments of `key`, of which the caller has known all up to version `as_of`, if that is not 0.
    pub(crate) fn assigned(&self, name: &LimitName, key: &str, as_of: u64) -> KnownAssigned {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        let sets = [*name, name.source()];
        let may_have = |set| cached.limits.get(&set).filter(|(_, filter)| filter.may_have(key));
        let shapes: Shapes = sets.map(|set| may_have(set).map(|(shape, _)| *shape));
        if shapes == [None, None] {
            return KnownAssigned::None;
        }
        let is_unchanged = as_of > 0 && as_of >= cached.recent_since && {
            let changes = sets.map(|set| cached.recent.get(&(set, key.to_owned())));
            changes.into_iter().flatten().all(|version| *version <= as_of)
        };
        if is_unchanged { KnownAssigned::Unchanged } else { KnownAssigned::Ask(shapes) }
    }

    /// Whether keys of the limit `name` are assigned outside of the config, or were.
    pub(crate) fn has_assigned(&self, name: &LimitName) -> bool {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        [*name, name.source()].iter().any(|set| cached.limits.contains_key(set))
    }

    /// Reads what has changed in Redis by the poll that was sent at `sent`.
    pub(crate) async fn catch_up(
        &self,
        polled: &Polled,
        sent: Micros,
        connection: &mut Connection,
        clock: &Clock,
        limits: &Limits,
    ) {
        match polled.assigned {
            _ if polled.newer_schema.is_some() => return,
            Some(version) if version != self.version() => {
                // Without an answer, the next poll asks again.
                let read = self.read(version, connection, limits);
                if !matches!(clock.timeout(READING, read).await, Ok(Ok(()))) {
                    return;
                }
            }
            Some(_) => {}
            None => {
                if !self.said_forbidden.swap(true, Relaxed) {
                    say(
                        "this user of Redis may not read which keys are assigned to plans by hand, so none is: \
                         give it the rights that `topupd acl` prints",
                    );
                }
            }
        }
        self.trust(sent, clock.now());
    }

    /// Trusts this knowledge after the answer, at `now`, to a poll that was sent at `sent`.
    fn trust(&self, sent: Micros, now: Micros) {
        // A take may have waited since the trust ended, which may have been while the poll was on its way.
        let was_trusted = self.trusted_until.swap(sent.saturating_add(TRUST), Relaxed) > now;
        if !was_trusted {
            self.news.notify_waiters();
        }
    }

    /// Wakes takes that wait for a change of plans which others know.
    pub(crate) fn tell(&self) {
        self.news.notify_waiters();
    }

    async fn read(
        &self,
        version: u64,
        connection: &mut Connection,
        limits: &Limits,
    ) -> redis::RedisResult<()> {
        if version == 0 {
            // Redis has lost them, or never had any.
            *self.cached.write().unwrap_or_else(PoisonError::into_inner) = Cached::default();
            self.note(0);
            return Ok(());
        }
        let index = scripts::assignment_index(connection).await?;
        let before = self.version();
        let is_logged = before >= index.since && before > 0 && before <= index.version;
        let changed = if is_logged { scripts::assigned_after(connection, before).await? } else { Vec::new() };
        let mut anew = HashMap::new();
        for (name, shape) in &index.shapes {
            let is_same = {
                let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
                cached.limits.get(name).is_some_and(|(known, _)| known == shape)
            };
            if !is_same || !is_logged {
                anew.insert(*name, (*shape, scripts::key_filter(connection, name, shape).await?));
            }
        }
        {
            let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
            cached.limits.retain(|name, _| index.shapes.contains_key(name));
            let is_anew = !is_logged || !anew.is_empty() || cached.recent.len() + changed.len() > MOST_RECENT;
            cached.limits.extend(anew);
            if is_anew {
                cached.recent.clear();
                cached.recent_since = index.version;
            }
            for (name, key) in changed {
                if let Some((_, filter)) = cached.limits.get_mut(&name) {
                    filter.insert(&key);
                }
                cached.recent.insert((name, key), index.version);
            }
        }
        for limit in index.shapes.keys().filter_map(|name| limits.find(name.live().as_str())) {
            limit.note_assigned();
        }
        self.note(index.version);
        Ok(())
    }

    fn note(&self, version: u64) {
        self.version.store(version, Relaxed);
        self.changes.fetch_add(1, Relaxed);
        self.news.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_late_answer_wakes_takes_that_wait_since_the_trust_ended() {
        let plans = KeyPlans::default();
        let wakes = |sent, answered| {
            let mut news = pin!(plans.news.notified());
            news.as_mut().enable();
            plans.trust(sent, answered);
            news.now_or_never().is_some()
        };
        assert!(wakes(1, 2));
        assert!(!wakes(TRUST / 2, TRUST / 2 + 1), "nobody has waited");
        // Sent before the trust ended, and answered after it.
        assert!(wakes(TRUST, 2 * TRUST));
    }
}
