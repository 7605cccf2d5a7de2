//! Holds and debt: charged to the token, once.

use std::time::Duration;

use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::Algorithm,
    namespace::Namespace,
    reply::{Settled, Verdict},
    scripts::{self, HoldOf, HoldOutcome, HoldReply, Use},
};

use crate::{
    generators::limit_of,
    server::{Redis, publish},
};

/// A limit of 20 tokens of which none comes within the test.
struct Scene {
    redis: Redis,
    keys: ShardKeys,
    algorithm: Algorithm,
}

impl Scene {
    async fn set(mut redis: Redis, algorithm: Algorithm) -> Self {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
        publish(&mut redis.connection, &keys, &limit_of(algorithm, 20), None).await.unwrap();
        Self { redis, keys, algorithm }
    }

    async fn settle(&mut self, operation: Operation) -> Settled {
        let Self { redis, keys, algorithm } = self;
        scripts::settle(&mut redis.connection, *algorithm, keys, "a", operation, true, None).await.unwrap()
    }

    async fn tokens(&mut self) -> u64 {
        self.settle(Operation::Peek(1)).await.tokens
    }

    fn hold<'s>(&'s self, id: &'s str, tokens: u64, is_remembered: bool) -> HoldOf<'s> {
        HoldOf { algorithm: self.algorithm, keys: &self.keys, member: "a", id, tokens, is_remembered }
    }

    async fn reserve(&mut self, id: &str, tokens: u64, ttl: Duration) -> HoldReply {
        let mut connection = self.redis.connection.clone();
        scripts::reserve_hold(&mut connection, self.hold(id, tokens, true), ttl).await.unwrap()
    }

    /// Settles, in as many steps as it takes.
    async fn used(&mut self, id: &str, tokens: u64, remembered: bool, used: u64, max_debt: u64) -> HoldReply {
        let mut connection = self.redis.connection.clone();
        let (hold, in_hand_for) = (self.hold(id, tokens, remembered), Duration::ZERO);
        loop {
            let used = Use { used, max_debt, in_hand_for };
            let reply = scripts::settle_hold(&mut connection, hold, used).await.unwrap();
            if reply.outcome != HoldOutcome::Again {
                return reply;
            }
        }
    }

    async fn abandon(&mut self, id: &str, tokens: u64) -> HoldOutcome {
        let mut connection = self.redis.connection.clone();
        let hold = self.hold(id, tokens, true);
        loop {
            match scripts::abandon_hold(&mut connection, hold, Duration::ZERO).await.unwrap().outcome {
                HoldOutcome::Again => {}
                outcome => return outcome,
            }
        }
    }
}

#[tokio::test]
async fn a_hold_is_settled_once_and_to_the_token() {
    let mut redis = Redis::start().await;
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::set(redis, algorithm).await;
        for (i, counting) in [false, true].into_iter().enumerate() {
            if counting {
                scene.settle(Operation::Reset).await;
                scene.settle(Operation::Lease(2)).await;
                scene.settle(Operation::Refund(2)).await;
            }
            let ids = ["put-back", "charged"].map(|word| format!("{word}-{i}"));
            // 4 of 10 were used: 6 go back, once.
            scene.settle(Operation::Take(10)).await;
            assert_eq!(scene.used(&ids[0], 10, false, 4, 0).await.outcome, HoldOutcome::Done, "{algorithm}");
            assert_eq!(scene.tokens().await, 16, "{algorithm}");
            assert_eq!(scene.used(&ids[0], 10, false, 4, 0).await.outcome, HoldOutcome::DoneBefore);
            assert_eq!(scene.tokens().await, 16, "{algorithm}");
            // 15 of 10 were used: 5 are charged, once.
            scene.settle(Operation::Take(10)).await;
            for outcome in [HoldOutcome::Done, HoldOutcome::DoneBefore] {
                let reply = scene.used(&ids[1], 10, false, 15, 0).await;
                assert_eq!((reply.outcome, reply.uncharged), (outcome, 0), "{algorithm}");
                assert_eq!(scene.tokens().await, 1, "{algorithm}");
            }
        }
        redis = scene.redis;
    }
}

#[tokio::test]
async fn what_is_beyond_the_debt_is_told_and_debt_is_repaid_first() {
    let mut redis = Redis::start().await;
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::set(redis, algorithm).await;
        let debt = if algorithm.has_windows() { 0 } else { 7 };
        scene.settle(Operation::Take(18)).await;
        for outcome in [HoldOutcome::Done, HoldOutcome::DoneBefore] {
            let reply = scene.used("deep", 0, false, 30, 7).await;
            assert_eq!((reply.outcome, reply.uncharged), (outcome, 30 - 2 - debt), "{algorithm}");
        }
        let state = scene.keys.state(algorithm, "a");
        let ttl: i64 = scene.redis.ask(&["PTTL", &state]).await;
        assert!(ttl > 0, "{algorithm}: a bucket in debt is at rest until it is full");
        if algorithm == Algorithm::TokenBucket {
            // No native command takes of it.
            let error = scene.redis.try_ask::<i64>(&["DECR", &state]).await.unwrap_err();
            assert!(scripts::is_not_a_counter(&error), "{error}");
        }
        let denied = scene.settle(Operation::Take(1)).await;
        assert_eq!((denied.verdict, denied.tokens), (Verdict::Denied, 0), "{algorithm}");
        let day = 86_400_000_000;
        if debt > 0 {
            assert!(denied.wait > debt * day && denied.wait <= (debt + 1) * day, "{algorithm}: {denied:?}");
        }
        // Tokens that are put back repay debt first.
        scene.settle(Operation::Refund(debt + 2)).await;
        assert_eq!(scene.tokens().await, 2, "{algorithm}");
        redis = scene.redis;
    }
}

#[tokio::test]
async fn an_abandoned_hold_is_put_back_once_and_charged_in_full_if_it_is_settled_after_all() {
    let mut redis = Redis::start().await;
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::set(redis, algorithm).await;
        let second = Duration::from_secs(1);
        assert_eq!(scene.reserve("a", 8, second).await.settled.tokens, 12, "{algorithm}");
        assert_eq!(scene.reserve("b", 13, second).await.settled.verdict, Verdict::Denied);
        assert_eq!(scene.reserve("c", 5, Duration::from_secs(3_600)).await.settled.tokens, 7);
        let due = scripts::due_holds(&mut scene.redis.connection, &scene.keys, 9).await.unwrap();
        assert_eq!(due.holds, []);
        let next = due.next.unwrap();
        assert!(next <= due.now + 1_000_000, "{due:?}");
        // The time of the first one is over.
        let (holds, score) = (scene.keys.holds(), (due.now - 1).to_string());
        scene.redis.ask::<()>(&["ZADD", &holds, &score, "a:8:a"]).await;
        let due = scripts::due_holds(&mut scene.redis.connection, &scene.keys, 9).await.unwrap();
        let [over] = &due.holds[..] else { panic!("{due:?}") };
        assert_eq!((over.id.as_str(), over.tokens, over.member.as_str()), ("a", 8, "a"));
        for outcome in [HoldOutcome::Done, HoldOutcome::DoneBefore] {
            assert_eq!(scene.abandon("a", 8).await, outcome, "{algorithm}");
            assert_eq!(scene.tokens().await, 15, "{algorithm}");
        }
        // Its holder comes back.
        assert_eq!(scene.used("a", 8, true, 3, 0).await.outcome, HoldOutcome::Done);
        assert_eq!(scene.tokens().await, 12, "{algorithm}");
        // The other one is settled in time, and then it is not abandoned.
        assert_eq!(scene.used("c", 5, true, 1, 0).await.outcome, HoldOutcome::Done);
        assert_eq!(scene.abandon("c", 5).await, HoldOutcome::DoneBefore);
        assert_eq!(scene.tokens().await, 16, "{algorithm}");
        assert!(!scene.redis.ask::<bool>(&["EXISTS", &holds]).await);
        redis = scene.redis;
    }
}

#[tokio::test]
async fn a_hold_of_an_unknown_limit_leaves_no_key() {
    let redis = Redis::start().await;
    let mut scene = Scene::set(redis, Algorithm::TokenBucket).await;
    scene.redis.ask::<()>(&["FLUSHALL"]).await;
    assert_eq!(scene.reserve("a", 1, Duration::from_secs(1)).await.outcome, HoldOutcome::Unknown);
    assert_eq!(scene.used("a", 3, false, 1, 0).await.outcome, HoldOutcome::Unknown);
    assert_eq!(scene.used("a", 3, false, 5, 0).await.outcome, HoldOutcome::Unknown);
    assert!(scene.redis.keyspace().await.is_empty());
}
