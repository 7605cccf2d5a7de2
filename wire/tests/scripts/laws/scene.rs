//! One limit in one Redis, with time that passes when it is told to.

use topup_wire::{
    bucket::{Operation, Pace},
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, Supply},
    namespace::Namespace,
    reply::{PublishReply, PutInReply, Refilled, Settled, Verdict},
    scripts::{self, InDoubt, Look, PutIn},
};

use crate::{
    server::{Redis, publish},
    travel::travel,
};

/// One limit in one Redis.
pub(crate) struct Scene {
    pub(crate) redis: Redis,
    pub(crate) keys: ShardKeys,
    pub(crate) limit: Limit,
    /// µs that have been made to pass.
    pub(crate) passed: i64,
    /// Slips so far. Tokens fall on whole µs from a fixed instant on. A bucket may be moved by other than whole spans of
    /// its rate. Its next token may then fall a µs earlier or later, which is one slip.
    pub(crate) slips: u64,
}

// === impl Scene ===

impl Scene {
    /// `limit`, published in `redis`, which is emptied first.
    pub(crate) async fn set(mut redis: Redis, limit: Limit) -> Self {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let mut scene = Self {
            redis,
            keys: ShardKeys::new(Namespace::default(), &limit.name, 0),
            limit,
            passed: 0,
            slips: 0,
        };
        let limit = scene.limit.clone();
        assert_eq!(scene.publish(limit, None).await, PublishReply::Created);
        scene
    }

    /// The limit's pace: n tokens every p µs.
    pub(crate) fn pace(&self) -> (u64, u64) {
        self.limit.terms.supply.lowest_terms()
    }

    /// An instant of Redis as one of the scene, where time has passed that did not.
    pub(crate) fn instant(&self, of_redis: u64) -> u64 {
        of_redis.checked_add_signed(self.passed).unwrap()
    }

    /// The instant.
    pub(crate) async fn now(&mut self) -> u64 {
        let now = self.redis.time().await;
        self.instant(now)
    }

    /// About `by` µs pass: whole spans of the rate, where a µs makes a difference.
    pub(crate) async fn pass_about(&mut self, by: u64) {
        let (n, p) = self.pace();
        self.pass(if n > p / 1_000 { by.next_multiple_of(p) } else { by }).await;
    }

    /// `by` µs pass.
    pub(crate) async fn pass(&mut self, by: u64) {
        self.passed += by as i64;
        self.step_clock(by as i64).await;
    }

    /// The clock of Redis steps by so many µs, and no time passes.
    pub(crate) async fn step_clock(&mut self, by: i64) {
        let (n, p) = self.pace();
        self.slips += u64::from(n > 1 && !by.unsigned_abs().is_multiple_of(p));
        travel(&mut self.redis, &self.keys, by).await;
    }

    pub(crate) async fn publish(&mut self, limit: Limit, at: Option<u64>) -> PublishReply {
        self.limit = limit;
        if let Supply::Period(period) = &mut self.limit.terms.supply {
            // The oracle's instants, as those of Redis.
            period.since = period.since.saturating_add_signed(-self.passed);
            period.next = period.next.saturating_add_signed(-self.passed);
        }
        publish(&mut self.redis.connection, &self.keys, &self.limit, at).await.unwrap()
    }

    /// The reply, its instant as one of the scene.
    pub(crate) async fn settle(&mut self, member: &str, operation: Operation) -> Settled {
        self.settle_in_doubt(member, operation, InDoubt::default()).await
    }

    /// The same of a worker with tokens in doubt.
    pub(crate) async fn settle_in_doubt(
        &mut self,
        member: &str,
        operation: Operation,
        in_doubt: InDoubt,
    ) -> Settled {
        let conn = &mut self.redis.connection;
        let in_doubt = Some(in_doubt).filter(|in_doubt| in_doubt.tokens > 0);
        let settled =
            scripts::settle(conn, Algorithm::TokenBucket, &self.keys, member, operation, true, in_doubt)
                .await
                .unwrap();
        Settled { now: self.instant(settled.now), ..settled }
    }

    /// A first take of a full bucket: whether it was one, and the instants before and after.
    pub(crate) async fn first_take(&mut self, member: &str, count: u64) -> (u64, bool, u64) {
        let (n, p) = self.pace();
        let (state, record) = (self.keys.counter(member), self.keys.record.clone());
        let terms = self.redis.ask(&["HGET", &record, "terms"]).await;
        let from = self.now().await;
        let conn = &mut self.redis.connection;
        let taken = scripts::first_take(conn, &state, terms, Pace { n, p }, count).await.unwrap();
        (from, taken, self.now().await)
    }

    /// Puts tokens into a bucket that is full at `full_at`, an instant of the scene, if no other worker has taken.
    pub(crate) async fn put_in(&mut self, member: &str, count: u64, full_at: u64) -> PutInReply {
        let full_at = full_at.checked_add_signed(-self.passed).unwrap();
        let request = PutIn {
            tokens: Some(count),
            unused: 0,
            unused_since: 0,
            full_at: Some(full_at),
            spare: 0,
            in_hand_for: self.limit.in_hand_for(),
        };
        let (conn, algorithm) = (&mut self.redis.connection, self.limit.algorithm);
        scripts::try_put_in(conn, algorithm, &self.keys, member, request).await.unwrap()
    }

    /// Tokens in a bucket now.
    pub(crate) async fn tokens(&mut self, member: &str) -> u64 {
        self.settle(member, Operation::Peek(1)).await.tokens
    }

    /// Takes `count` tokens, which must be there: those left.
    pub(crate) async fn take(&mut self, member: &str, count: u64) -> u64 {
        let settled = self.settle(member, Operation::Take(count)).await;
        assert_eq!(settled.verdict, Verdict::Allowed);
        settled.tokens
    }

    /// A daemon's pass: every bucket that is due, `slice` of them at a time.
    pub(crate) async fn refill(&mut self, slice: usize) -> Refilled {
        self.look(slice, Look::Due).await
    }

    /// A pass over every bucket that is owed a token, and those ahead of the clock.
    pub(crate) async fn refill_all(&mut self, slice: usize) -> Refilled {
        self.look(slice, Look::All).await
    }

    async fn look(&mut self, slice: usize, look: Look) -> Refilled {
        let conn = &mut self.redis.connection;
        let mut sum = Refilled::default();
        loop {
            let refilled = scripts::refill(conn, &self.keys, slice, look).await.unwrap();
            sum = Refilled {
                credited: sum.credited + refilled.credited,
                full: sum.full + refilled.full,
                tokens: sum.tokens + refilled.tokens,
                ..refilled
            };
            if refilled.again > refilled.now {
                return sum;
            }
        }
    }

    /// Carries every bucket over the last change, `slice` of them at a time.
    pub(crate) async fn migrate(&mut self, slice: usize) {
        let conn = &mut self.redis.connection;
        loop {
            let members = scripts::list_previous(conn, &self.keys, slice).await.unwrap();
            if scripts::migrate(conn, &self.keys, &members).await.unwrap().left == 0 {
                return;
            }
        }
    }
}
