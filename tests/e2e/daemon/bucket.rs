//! One bucket, as a worker and as Redis see it.

use redis::aio::MultiplexedConnection;
use topup_tests::Redis;
use topup_wire::{
    bucket::Operation,
    constants::BAND_WIDTH,
    keyspace::{ShardKeys, shard_of},
    limit::{Algorithm, Shards},
    namespace::Namespace,
    reply::{Settled, Verdict},
    scripts,
};

/// A bucket of a token bucket limit.
pub(super) struct Bucket {
    connection: MultiplexedConnection,
    pub(super) keys: ShardKeys,
    member: String,
}

/// The state of a counting bucket in Redis: tokens, and the instant up to which it has been credited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) tokens: i64,
    pub(super) score: u64,
}

// === impl Bucket ===

impl Bucket {
    /// The one bucket of an unkeyed limit.
    pub(super) fn of(redis: &Redis, limit: &str) -> Self {
        let keys = ShardKeys::new(Namespace::default(), &limit.parse().unwrap(), 0);
        Self { connection: redis.connection(), keys, member: String::new() }
    }

    /// The bucket of `key`, of a limit with so many shards.
    pub(super) fn keyed(redis: &Redis, limit: &str, key: &str, shards: u64) -> Self {
        let shard = shard_of(key, Shards::new(shards).unwrap());
        let keys = ShardKeys::new(Namespace::default(), &limit.parse().unwrap(), shard);
        Self { connection: redis.connection(), keys, member: key.to_owned() }
    }

    /// As a worker that goes on with bare commands where it may: a bucket of which several tokens are taken counts.
    pub(super) async fn settle(&self, operation: Operation) -> Settled {
        let (algorithm, conn) = (Algorithm::TokenBucket, &mut self.connection.clone());
        scripts::settle(conn, algorithm, &self.keys, &self.member, operation, true, None).await.unwrap()
    }

    pub(super) async fn take(&self, count: u64) -> Settled {
        self.settle(Operation::Take(count)).await
    }

    /// Takes everything there is.
    pub(super) async fn drain(&self) -> Settled {
        let full = self.peek().await;
        let drained = self.take(full.tokens).await;
        assert_eq!(drained.verdict, Verdict::Allowed);
        drained
    }

    pub(super) async fn peek(&self) -> Settled {
        self.settle(Operation::Peek(1)).await
    }

    /// The reply of a bare `DECRBY`.
    pub(super) async fn decrement(&self, by: i64) -> i64 {
        let left = redis::Cmd::decr(self.counter(), by).query_async(&mut self.connection.clone()).await;
        left.map_err(|error| format!("{}: {error}", self.counter())).unwrap()
    }

    /// Its state in Redis, read at one instant; `None` when it is full or at rest.
    pub(super) async fn stored(&self) -> Option<Stored> {
        let mut both = redis::pipe();
        both.atomic().get(self.counter()).zscore(&self.keys.due, &self.member);
        let (tokens, score): (Option<String>, Option<f64>) =
            both.query_async(&mut self.connection.clone()).await.unwrap();
        let tokens = tokens.map_or(0, |tokens| tokens.parse().unwrap_or(0));
        // Far from full, it stands farther on in the index.
        score.map(|score| Stored { tokens, score: (score as i64).rem_euclid(BAND_WIDTH) as u64 })
    }

    pub(super) fn counter(&self) -> String {
        self.keys.counter(&self.member)
    }
}
