//! The daemon's part: publishes limits, refills buckets, makes the changes of schedules. Its commands end at once.

mod publish;
mod ready;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    in_memory::Direct,
    keyspace::ShardKeys,
    limit::LimitName,
    namespace::InNamespace,
    reply::Settled,
    scripts::{self, FREEZE, Health, Look},
};

use super::spec::Spec;
use ready::ready;

/// Longer than any test.
const ALWAYS: Duration = Duration::from_secs(50 * 366 * 24 * 3_600);
/// Buckets in one command.
const SLICE: usize = 250;

/// The daemon of a test.
#[derive(Debug)]
pub(super) struct Daemon {
    redis: Direct,
    began: u64,
    limits: BTreeMap<LimitName, Spec>,
    /// Up to when ticks, schedules and quotas have been carried out.
    done: u64,
    /// Frozen limits, and since when.
    frozen: BTreeMap<LimitName, u64>,
}

// === impl Daemon ===

impl Daemon {
    /// A daemon that has published `limits`, at the instant `now` of Redis.
    pub(super) fn start(redis: Direct, limits: BTreeMap<LimitName, Spec>, now: u64) -> RedisResult<Self> {
        let mut daemon = Self { redis, began: now, limits, done: now, frozen: BTreeMap::new() };
        ready(scripts::heartbeat(&mut daemon.redis, "testing", ALWAYS, &Health::default()))?;
        let names: Vec<LimitName> = daemon.limits.keys().copied().collect();
        for name in names {
            daemon.publish(name, now)?;
        }
        daemon.announce()?;
        Ok(daemon)
    }

    /// The next instant after the last one at which a tick, a schedule or a quota is due.
    pub(super) fn next(&mut self) -> Option<u64> {
        let (began, done) = (self.began, self.done);
        let limits: Vec<(LimitName, Option<u64>, Option<u64>)> =
            self.limits.iter().map(|(name, spec)| (*name, spec.boundary(began, done), spec.tick())).collect();
        let changes = self.frozen.values().map(|since| since + FREEZE.as_micros() as u64);
        let changes: Vec<u64> = changes.filter(|at| *at > done).collect();
        let dues = limits.into_iter().flat_map(|(name, boundary, tick)| {
            let tick = tick.filter(|_| self.is_active(name)).map(|tick| done - (done - began) % tick + tick);
            [boundary, tick].into_iter().flatten()
        });
        dues.min().into_iter().chain(changes).min()
    }

    /// Carries out what is due at `now`.
    pub(super) fn run(&mut self, now: u64) -> RedisResult<()> {
        let due = |(_, spec): &(&LimitName, &Spec)| {
            spec.boundary(self.began, self.done).is_some_and(|at| at <= now)
        };
        let mut changed: BTreeSet<LimitName> =
            self.limits.iter().filter(due).map(|(name, _)| *name).collect();
        let known = |since: &u64| since + FREEZE.as_micros() as u64 <= now;
        changed.extend(self.frozen.iter().filter(|(_, since)| known(since)).map(|(name, _)| *name));
        for name in &changed {
            self.publish(*name, now)?;
        }
        if !changed.is_empty() {
            self.announce()?;
        }
        let names: Vec<LimitName> = self.limits.keys().copied().collect();
        for name in names {
            self.refill(name, now)?;
        }
        self.done = now;
        Ok(())
    }

    /// Gives a limit other terms, or publishes a new one. Returns whether workers have to be told first: then
    /// [`run`](Self::run) makes the change [`FREEZE`] later.
    pub(super) fn change(&mut self, name: LimitName, spec: Spec, now: u64) -> RedisResult<bool> {
        if self.limits.get(&name).is_some_and(|before| before.0.keyed != spec.0.keyed) {
            self.remove(name)?;
        }
        self.limits.insert(name, spec);
        self.frozen.remove(&name);
        self.publish(name, now)?;
        self.announce()?;
        Ok(self.frozen.contains_key(&name))
    }

    /// The reply to a peek at a bucket.
    pub(super) fn peek(&mut self, name: LimitName, member: &str) -> RedisResult<Option<Settled>> {
        let Some(spec) = self.limits.get(&name) else { return Ok(None) };
        let (algorithm, keys, peek) = (spec.0.algorithm, self.keys(name), Operation::Peek(1));
        let peek = scripts::settle(&mut self.redis, algorithm, &keys, member, peek, false, None);
        ready(peek).map(Some)
    }

    fn keys(&self, name: LimitName) -> ShardKeys {
        ShardKeys::new(self.redis.namespace(), &name, 0)
    }

    fn announce(&mut self) -> RedisResult<()> {
        ready(scripts::announce(&mut self.redis)).map(drop)
    }

    fn is_active(&mut self, name: LimitName) -> bool {
        let keys = self.keys(name);
        ready(scripts::is_active(&mut self.redis, &keys)).unwrap_or(false)
    }

    /// Credits all buckets of a limit that are due.
    fn refill(&mut self, name: LimitName, now: u64) -> RedisResult<()> {
        let keys = self.keys(name);
        self.migrate(&keys)?;
        while self.is_active(name) {
            let refilled = ready(scripts::refill(&mut self.redis, &keys, SLICE, Look::Due))?;
            if refilled.again > now || refilled.credited == 0 {
                break;
            }
        }
        Ok(())
    }
}
