//! The daemon's part: publishes limits, refills buckets, makes the changes of schedules. Its commands end at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::FutureExt;
use redis::{ErrorKind, RedisError, RedisResult};
use topup_wire::{
    bucket::Operation,
    in_memory::Direct,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, Shards},
    namespace::InNamespace,
    reply::{PublishReply, Settled},
    scripts::{self, FREEZE, Health, Look},
};

use super::spec::Spec;

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
        let peek = scripts::settle(&mut self.redis, algorithm, &keys, member, peek, false, 0);
        ready(peek).map(Some)
    }

    fn keys(&self, name: LimitName) -> ShardKeys {
        ShardKeys::new(self.redis.namespace(), &name, 0)
    }

    fn announce(&mut self) -> RedisResult<()> {
        ready(scripts::announce(&mut self.redis)).map(drop)
    }

    /// Publishes a limit as it is at `now`, or freezes it.
    fn publish(&mut self, name: LimitName, now: u64) -> RedisResult<()> {
        let Some(spec) = self.limits.get(&name) else { return Ok(()) };
        let (keys, limit) = (self.keys(name), spec.at(self.began, now));
        let before = ready(scripts::read_limit(&mut self.redis, &name))?.map(|published| published.limit);
        ready(scripts::register(&mut self.redis, &name, Shards::ONE))?;
        let known = self.frozen.get(&name).copied();
        loop {
            match ready(scripts::publish(&mut self.redis, &keys, &limit, None, known))? {
                PublishReply::Announced(since) => {
                    self.frozen.insert(name, since);
                    return Ok(());
                }
                PublishReply::Busy if self.migrate(&keys)? == 0 => self.sweep(&keys)?,
                PublishReply::Busy => {}
                // No limit has plans here.
                PublishReply::TooEarly(_) => return Ok(()),
                PublishReply::Unchanged => break,
                PublishReply::Changed | PublishReply::Created => {
                    if let Some(before) = before.as_ref() {
                        self.adapt(&keys, &limit, before)?;
                    }
                    break;
                }
            }
        }
        self.frozen.remove(&name);
        Ok(())
    }

    /// Brings buckets to the terms of `limit`.
    fn adapt(&mut self, keys: &ShardKeys, limit: &Limit, before: &Limit) -> RedisResult<()> {
        if limit.algorithm.is_script_only() {
            self.sweep(keys)?;
        }
        let mut node = self.redis.clone();
        let redis = &mut self.redis;
        if before.algorithm != limit.algorithm {
            return ready(scripts::sweep_states(redis, &mut node, &limit.name, before.algorithm, 0));
        }
        if limit.algorithm.is_script_only() {
            return ready(scripts::touch_states(redis, &mut node, &limit.name, limit.algorithm));
        }
        self.migrate(keys)?;
        let (at_rest, _) = ready(scripts::find_at_rest(&mut node, &limit.name, 0))?;
        for (_, member) in at_rest {
            // A refund of no tokens changes the form and the expiry only.
            let (bucket, nothing) = (Algorithm::TokenBucket, Operation::Refund(0));
            ready(scripts::settle(&mut self.redis, bucket, keys, &member, nothing, false, 0))?;
        }
        Ok(())
    }

    fn migrate(&mut self, keys: &ShardKeys) -> RedisResult<u64> {
        let mut migrated = 0;
        if !ready(scripts::is_migrating(&mut self.redis, keys))? {
            return Ok(migrated);
        }
        loop {
            let members = ready(scripts::list_previous(&mut self.redis, keys, SLICE))?;
            let slice = ready(scripts::migrate(&mut self.redis, keys, &members))?;
            migrated += slice.migrated;
            if slice.migrated == 0 || slice.left == 0 {
                return Ok(migrated);
            }
        }
    }

    fn sweep(&mut self, keys: &ShardKeys) -> RedisResult<()> {
        while ready(scripts::sweep_counters(&mut self.redis, keys, SLICE))? > 0 {}
        Ok(())
    }

    fn remove(&mut self, name: LimitName) -> RedisResult<()> {
        let keys = self.keys(name);
        ready(scripts::drop_record(&mut self.redis, &keys))?;
        self.sweep(&keys)?;
        let mut node = self.redis.clone();
        for algorithm in Algorithm::EVERY {
            ready(scripts::sweep_states(&mut self.redis, &mut node, &name, algorithm, 0))?;
        }
        Ok(())
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

/// The result of a command that ends at once.
fn ready<T>(command: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let unready = || RedisError::from((ErrorKind::Client, "a command of the Redis in memory has not ended"));
    command.now_or_never().unwrap_or_else(|| Err(unready()))
}
