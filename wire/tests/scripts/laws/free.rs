//! Law 4: full buckets and removed limits cost nothing.

use rand::RngExt;
use topup_wire::{
    bucket::Operation,
    constants::HOLD,
    limit::{Algorithm, Capacity, Shards},
    reply::{PutInReply, Verdict},
    scripts,
};

use super::scene::Scene;
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RUNS: u64 = 10;
const HOUR: u64 = 3_600_000_000;

/// The keys there are.
async fn keys(scene: &mut Scene) -> Vec<String> {
    scene.redis.keyspace().await.into_keys().collect()
}

#[tokio::test]
async fn a_full_bucket_has_no_key() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let capacity = rng.random_range(1..100);
        let mut scene = Scene::set(redis, limit(capacity, "7/s")).await;
        for i in 0..60 {
            let member = format!("user-{}", i % 20);
            let count = rng.random_range(0..=capacity);
            let operation = match rng.random_range(0..10) {
                0 => Operation::Refund(count),
                1 => Operation::Reset,
                2 => Operation::Peek(count),
                _ => Operation::Take(count),
            };
            scene.settle(&member, operation).await;
        }
        // Buckets fill in four ways. A reset keeps a key from becoming a counter for a while. A put-back fills an
        // untouched bucket. Time does, and so does time with a daemon.
        scene.settle("user-0", Operation::Reset).await;
        scene.settle("user-1", Operation::Refund(capacity)).await;
        // A key expires by the ms.
        scene.pass(HOLD + 1_000).await;
        for member in ["user-0", "user-1"] {
            assert!(!keys(&mut scene).await.contains(&scene.keys.counter(member)));
        }
        let taken = scene.settle("user-21", Operation::Take(1)).await;
        let full_at = taken.now + taken.headroom;
        assert!(matches!(scene.put_in("user-21", 1, full_at).await, PutInReply::Done(_)));
        assert!(!keys(&mut scene).await.contains(&scene.keys.counter("user-21")));
        scene.pass(HOUR).await;
        scene.refill(7).await;
        assert_eq!(keys(&mut scene).await, [scene.keys.record.as_str()]);
        redis = scene.redis;
    }
}

#[tokio::test]
async fn after_a_raise_a_bucket_has_a_key_until_one_without_would_be_full() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "1/s")).await;
    scene.take("a", 1).await;
    let raised = limit(3_610, "1/s");
    scene.publish(raised, None).await;
    scene.migrate(1).await;
    // Full, as an absent bucket is not yet: it holds 10 and grows.
    scene.settle("a", Operation::Reset).await;
    assert_eq!((scene.tokens("a").await, scene.tokens("b").await), (3_610, 10));
    scene.pass(HOUR / 2).await;
    scene.refill(1).await;
    assert_eq!((scene.tokens("a").await, scene.tokens("b").await), (3_610, 1_810));
    scene.pass(HOUR / 2).await;
    assert_eq!((scene.tokens("a").await, scene.tokens("b").await), (3_610, 3_610));
    scene.refill(1).await;
    assert_eq!(keys(&mut scene).await, [scene.keys.record.as_str()]);
}

#[tokio::test]
async fn a_removed_limit_has_no_key() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let mut scene = Scene::set(redis, limit(100, "1/min")).await;
        let conn = &mut scene.redis.connection;
        scripts::register(conn, &scene.limit.name, Shards::ONE).await.unwrap();
        let mut changed = scene.limit.clone();
        changed.terms.capacity = Capacity::new(50).unwrap();
        // Some buckets are due, some are still to be migrated.
        for i in 0..40 {
            scene.take(&format!("user-{i}"), rng.random_range(3..100)).await;
        }
        scene.publish(changed, None).await;
        for i in 20..60 {
            scene.settle(&format!("user-{i}"), Operation::Lease(3)).await;
        }
        // Some are at rest.
        for i in 100..120 {
            scene.take(&format!("user-{i}"), 1).await;
        }

        scripts::drop_record(&mut scene.redis.connection, &scene.keys).await.unwrap();
        let most = rng.random_range(1..30);
        let mut swept = 0;
        loop {
            // Workers that have not heard of it yet.
            let member = format!("user-{}", rng.random_range(0..70));
            let counter = scene.keys.counter(&member);
            if scripts::decrement(&mut scene.redis.connection, &counter, 1).await.unwrap() < 0 {
                assert_eq!(scene.settle(&member, Operation::Take(1)).await.verdict, Verdict::Unknown);
            }
            let conn = &mut scene.redis.connection;
            match scripts::sweep_counters(conn, &scene.keys, most).await.unwrap() {
                0 => break,
                some => swept += some,
            }
        }
        assert_eq!(swept, 60);
        let conn = &mut scene.redis.connection;
        let node = &mut conn.clone();
        scripts::sweep_states(conn, node, &scene.limit.name, Algorithm::TokenBucket, 0).await.unwrap();
        scripts::forget(&mut scene.redis.connection, &scene.limit.name).await.unwrap();
        assert_eq!(keys(&mut scene).await, [""; 0]);
        redis = scene.redis;
    }
}

#[tokio::test]
async fn lazy_buckets_of_a_removed_limit_are_swept() {
    let mut lazy = limit(100, "1/min");
    lazy.algorithm = Algorithm::LazyTokenBucket;
    let mut scene = Scene::set(Redis::start().await, lazy).await;
    let conn = &mut scene.redis.connection;
    for i in 0..2_500 {
        scripts::settle(
            conn,
            Algorithm::LazyTokenBucket,
            &scene.keys,
            &format!("user-{i}"),
            Operation::Take(1),
            true,
            None,
        )
        .await
        .unwrap();
    }
    scripts::drop_record(conn, &scene.keys).await.unwrap();
    let node = &mut conn.clone();
    scripts::sweep_states(conn, node, &scene.limit.name, Algorithm::LazyTokenBucket, 0).await.unwrap();
    assert_eq!(keys(&mut scene).await, [""; 0]);
}
