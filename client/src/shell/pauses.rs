//! Pauses of limits and keys, as Redis has them and as this worker asked for.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use smol_str::SmolStr;
use topup_wire::{
    connection::Connection,
    limit::LimitName,
    reply::Polled,
    scripts::{self, LONGEST_PAUSE, MOST_PAUSES},
};

use super::clock::{Clock, micros};
use crate::machine::{Micros, RedisTime};

/// Most pauses that Redis does not know: of a worker that cannot reach it. Further ones do not hold.
const MOST_OWN: usize = 65_536;
/// The age of a pause that Redis has not confirmed: any reading of pauses is older.
const UNCONFIRMED: Micros = u64::MAX;

/// Stands for the version of pauses that are to be read with the next poll.
const UNREAD: u64 = u64::MAX;

/// The pauses that this worker knows, for all clones of a client.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// Whether there may be any. Every take reads it.
    any: AtomicBool,
    /// The version of those in Redis, as last read.
    version: AtomicU64,
    by_limit: RwLock<HashMap<LimitName, OfLimit>>,
}

#[derive(Debug, Default)]
struct OfLimit {
    /// The pause of all buckets.
    whole: Option<Pause>,
    keys: HashMap<SmolStr, Pause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    /// The end, by the worker's clock.
    until: Micros,
    /// Readings that were sent before this instant may miss the pause.
    since: Micros,
}

// === impl Pauses ===

impl Pauses {
    /// Whether anything may be paused. Reads no clock.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// The end of the pause of the limit `name` or of its `key`, the later one. It may be over.
    pub(crate) fn until(&self, name: &LimitName, key: Option<&str>) -> Option<Micros> {
        if !self.any() {
            return None;
        }
        let by_limit = self.by_limit.read().unwrap_or_else(PoisonError::into_inner);
        // A pause of a limit holds for all its plans.
        let name = if name.as_plan().is_some() { name.live() } else { *name };
        let of = by_limit.get(&name)?;
        let of_key = key.and_then(|key| of.keys.get(key));
        of.whole.iter().chain(of_key).map(|pause| pause.until).max()
    }

    /// Takes over the pauses in Redis, read by a command that was sent at `sent`.
    fn replace(&self, read: scripts::Pauses, redis: RedisTime, sent: Micros) {
        let longest = sent.saturating_add(micros(LONGEST_PAUSE));
        let mut by_limit = self.lock();
        let is_own = |pause: &Pause| pause.since > sent;
        by_limit.retain(|_, of| {
            of.whole = of.whole.filter(is_own);
            of.keys.retain(|_, pause| is_own(pause));
            of.whole.is_some() || !of.keys.is_empty()
        });
        for scripts::Pause { limit, key, until } in read.pauses {
            // Never before the end, and later than that by the time of a poll at most.
            let until = redis.local(until).min(longest);
            let of = by_limit.entry(limit).or_default();
            of.begin(key.as_deref(), Pause { until, since: 0 });
            // Redis knows of a pause here, whether it has confirmed that or not.
            of.get(key.as_deref()).into_iter().for_each(|pause| pause.since = 0);
        }
        let is_confirmed = |pause: &Pause| pause.since > 0 && pause.since < UNCONFIRMED;
        let unread = by_limit.values().any(|of| of.whole.iter().chain(of.keys.values()).any(is_confirmed));
        self.version.store(if unread { UNREAD } else { read.version }, Relaxed);
        self.any.store(!by_limit.is_empty(), Relaxed);
    }

    /// Begins a pause of this worker's own, which holds until Redis has confirmed it or it is over. The longer of two
    /// pauses holds.
    pub(crate) fn begin(&self, name: LimitName, key: Option<&str>, until: Micros, now: Micros) {
        let mut by_limit = self.lock();
        let is_full = |by_limit: &HashMap<LimitName, OfLimit>| {
            by_limit.values().map(|of| of.keys.len() + 1).sum::<usize>() >= MOST_OWN + MOST_PAUSES
        };
        if is_full(&by_limit) {
            prune(&mut by_limit, now);
        }
        if is_full(&by_limit) {
            return;
        }
        by_limit.entry(name).or_default().begin(key, Pause { until, since: UNCONFIRMED });
        self.any.store(true, Relaxed);
    }

    /// Redis has confirmed the pause at `now`: later readings tell whether it goes on.
    pub(crate) fn confirm(&self, name: &LimitName, key: Option<&str>, now: Micros) {
        let mut by_limit = self.lock();
        if let Some(pause) = by_limit.get_mut(name).and_then(|of| of.get(key)) {
            pause.since = pause.since.min(now);
        }
        // The next poll reads all pauses: Redis may lose this one before any poll has told its version.
        self.version.store(UNREAD, Relaxed);
    }

    /// Ends the pause of the limit `name`, or of its `key`.
    pub(crate) fn end(&self, name: &LimitName, key: Option<&str>) {
        let mut by_limit = self.lock();
        if let Some(of) = by_limit.get_mut(name) {
            of.end(key);
        }
        self.any.store(!by_limit.is_empty(), Relaxed);
    }

    /// Reads the pauses in Redis if they are of another version than `polled` tells. `redis` knows the time there.
    pub(crate) async fn catch_up(
        &self,
        polled: &Polled,
        redis: RedisTime,
        connection: &mut Connection,
        clock: &Clock,
        deadline: Duration,
    ) {
        let sent = clock.now();
        self.prune(sent);
        if self.version.load(Relaxed) == polled.paused || polled.newer_schema.is_some() {
            return;
        }
        let read = match polled.paused {
            0 => Ok(Ok(scripts::Pauses::default())),
            _ => clock.timeout(deadline, scripts::paused(connection)).await,
        };
        // Without an answer, the next poll asks again.
        if let Ok(Ok(read)) = read {
            self.replace(read, redis, sent);
        }
    }

    /// Removes pauses that are over.
    fn prune(&self, now: Micros) {
        if self.any() {
            let mut by_limit = self.lock();
            prune(&mut by_limit, now);
            self.any.store(!by_limit.is_empty(), Relaxed);
        }
    }

    fn lock(&self) -> RwLockWriteGuard<'_, HashMap<LimitName, OfLimit>> {
        self.by_limit.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl OfLimit ===

impl OfLimit {
    fn begin(&mut self, key: Option<&str>, pause: Pause) {
        match self.get(key) {
            Some(known) if known.until >= pause.until => {}
            Some(known) => *known = pause,
            None => match key {
                None => self.whole = Some(pause),
                Some(key) => drop(self.keys.insert(SmolStr::new(key), pause)),
            },
        }
    }

    fn get(&mut self, key: Option<&str>) -> Option<&mut Pause> {
        match key {
            None => self.whole.as_mut(),
            Some(key) => self.keys.get_mut(key),
        }
    }

    fn end(&mut self, key: Option<&str>) {
        match key {
            None => self.whole = None,
            Some(key) => drop(self.keys.remove(key)),
        }
    }
}

fn prune(by_limit: &mut HashMap<LimitName, OfLimit>, now: Micros) {
    by_limit.retain(|_, of| {
        of.whole = of.whole.filter(|pause| pause.until > now);
        of.keys.retain(|_, pause| pause.until > now);
        of.whole.is_some() || !of.keys.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crawl() -> LimitName {
        "crawl".parse().unwrap()
    }

    /// Pauses of keys of `crawl` as Redis tells them, by a clock that is 1,000 µs ahead.
    fn read(version: u64, pauses: &[(Option<&str>, u64)]) -> scripts::Pauses {
        let pause = |(key, until): &(Option<&str>, u64)| scripts::Pause {
            limit: crawl(),
            key: key.map(str::to_owned),
            until: until + 1_000,
        };
        scripts::Pauses { version, pauses: pauses.iter().map(pause).collect() }
    }

    fn replace(pauses: &Pauses, read: scripts::Pauses, sent: Micros) {
        pauses.replace(read, RedisTime::default().heard(sent + 1_000, sent, sent), sent);
    }

    #[test]
    fn the_longer_pause_holds_and_none_is_kept_when_it_is_over() {
        let pauses = Pauses::default();
        assert!(!pauses.any());
        pauses.begin(crawl(), Some("a"), 100, 0);
        pauses.begin(crawl(), Some("a"), 50, 0);
        assert_eq!(pauses.until(&crawl(), Some("a")), Some(100));
        assert_eq!((pauses.until(&crawl(), Some("b")), pauses.until(&crawl(), None)), (None, None));
        pauses.begin(crawl(), None, 70, 0);
        assert_eq!(pauses.until(&crawl(), Some("a")), Some(100));
        assert_eq!((pauses.until(&crawl(), Some("b")), pauses.until(&crawl(), None)), (Some(70), Some(70)));
        pauses.prune(99);
        assert!(pauses.any());
        pauses.prune(100);
        assert!(!pauses.any());
    }

    #[test]
    fn redis_has_the_last_word_but_for_what_it_cannot_know_yet() {
        let pauses = Pauses::default();
        replace(&pauses, read(7, &[(Some("a"), 500), (None, 300)]), 100);
        assert_eq!(pauses.version.load(Relaxed), 7);
        assert_eq!(pauses.until(&crawl(), Some("a")), Some(500));
        replace(&pauses, read(8, &[(Some("a"), 400)]), 110);
        assert_eq!(pauses.until(&crawl(), Some("a")), Some(400), "ended, and begun anew");
        assert_eq!(pauses.until(&crawl(), None), None);

        // Asked for at 120, confirmed at 130.
        pauses.begin(crawl(), Some("b"), 900, 120);
        replace(&pauses, read(9, &[]), 125);
        assert_eq!(pauses.until(&crawl(), Some("b")), Some(900), "Redis does not know it");
        pauses.confirm(&crawl(), Some("b"), 130);
        assert_eq!(pauses.version.load(Relaxed), UNREAD);
        replace(&pauses, read(9, &[]), 129);
        assert_eq!(pauses.version.load(Relaxed), UNREAD);
        assert_eq!(pauses.until(&crawl(), Some("b")), Some(900), "an answer from before");
        replace(&pauses, read(10, &[]), 131);
        assert_eq!(pauses.until(&crawl(), Some("b")), None, "somebody ended it");
        assert!(!pauses.any());
    }

    #[test]
    fn no_pause_is_longer_than_a_day_whatever_redis_tells() {
        let pauses = Pauses::default();
        replace(&pauses, read(1, &[(None, u64::MAX - 1_000)]), 5);
        assert_eq!(pauses.until(&crawl(), None), Some(5 + micros(LONGEST_PAUSE)));
        // Nothing is known of the time of Redis.
        pauses.replace(read(2, &[(None, 100)]), RedisTime::default(), 9);
        assert!(pauses.until(&crawl(), None).unwrap() <= 9 + micros(LONGEST_PAUSE));
    }

    #[test]
    fn a_resume_ends_one_pause_and_no_other() {
        let pauses = Pauses::default();
        pauses.begin(crawl(), Some("a"), 100, 0);
        pauses.begin(crawl(), None, 90, 0);
        pauses.end(&crawl(), None);
        assert_eq!((pauses.until(&crawl(), None), pauses.until(&crawl(), Some("a"))), (None, Some(100)));
        pauses.end(&crawl(), Some("a"));
        assert_eq!(pauses.until(&crawl(), Some("a")), None);
    }
}
