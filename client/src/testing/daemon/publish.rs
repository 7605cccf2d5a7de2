//! The publication of a limit, and of its changes: buckets are brought to its terms, or removed.

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, Shards},
    reply::PublishReply,
    scripts,
};

use super::{Daemon, SLICE, ready::ready};

// === impl Daemon ===

impl Daemon {
    /// Publishes a limit as it is at `now`, or freezes it.
    pub(super) fn publish(&mut self, name: LimitName, now: u64) -> RedisResult<()> {
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
            ready(scripts::settle(&mut self.redis, bucket, keys, &member, nothing, false, None))?;
        }
        Ok(())
    }

    pub(super) fn migrate(&mut self, keys: &ShardKeys) -> RedisResult<u64> {
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

    pub(super) fn remove(&mut self, name: LimitName) -> RedisResult<()> {
        let keys = self.keys(name);
        ready(scripts::drop_record(&mut self.redis, &keys))?;
        self.sweep(&keys)?;
        let mut node = self.redis.clone();
        for algorithm in Algorithm::EVERY {
            ready(scripts::sweep_states(&mut self.redis, &mut node, &name, algorithm, 0))?;
        }
        Ok(())
    }
}
