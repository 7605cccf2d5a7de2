//! Which buckets a slice is for, and when the daemon is to look again.

use topup_wire::{bucket::Operation, limit::Algorithm, scripts};

use crate::{generators::limit, laws::Scene, server::Redis};

/// From one credit of a bucket that is near full to the next.
const PERIOD: u64 = 1_600_000;

#[tokio::test]
async fn the_longest_waiting_come_first_and_the_reply_says_when_to_look_again() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "1/s")).await;
    let mut taken = Vec::new();
    for member in ["c", "a", "b"] {
        taken.push(scene.settle(member, Operation::Take(5)).await.now);
        scene.pass(600_000).await;
    }
    let (keys, look) = (scene.keys.clone(), scripts::Look::Due);
    let first = scripts::refill(&mut scene.redis.connection, &keys, 1, look).await.unwrap();
    assert_eq!((first.credited, first.again), (1, first.now));
    assert_eq!((scene.tokens("c").await, scene.tokens("b").await), (6, 5));
    let second = scripts::refill(&mut scene.redis.connection, &keys, 9, look).await.unwrap();
    assert_eq!((second.credited, scene.instant(second.again)), (0, taken[1] + PERIOD));
    assert_eq!(scripts::count_active(&mut scene.redis.connection, &keys).await.unwrap(), 3);
}

#[tokio::test]
async fn the_farther_from_full_the_less_often_a_bucket_is_credited() {
    let mut scene = Scene::set(Redis::start().await, limit(16_000, "100/s")).await;
    for (member, count) in [("near", 800), ("far", 3_200), ("farthest", 16_000)] {
        scene.take(member, count).await;
    }
    let mut credited = Vec::new();
    for _ in 0..65 {
        scene.pass(PERIOD).await;
        credited.push(scene.refill(9).await.credited);
    }
    // Each of them in each period would be 90.
    assert!((10..=20).contains(&credited.iter().sum::<u64>()), "{credited:?}");
    scene.take("far", 3).await;
    assert_eq!(scene.tokens("near").await, 16_000);
    scene.take("near", 800).await;
    assert!((10_240..12_800).contains(&scene.tokens("farthest").await));
    // All buckets are listed once, when estimates of them may be wrong.
    scene.pass(PERIOD).await;
    assert_eq!(scene.refill_all(1).await.credited, 3);
}

/// Or a daemon that comes to many would never be done with them.
#[tokio::test]
async fn what_is_looked_at_though_not_due_is_so_once() {
    let mut scene = Scene::set(Redis::start().await, limit(1_000_000, "1000/s")).await;
    for member in ["a", "b", "c"] {
        scene.take(member, 900_000).await;
    }
    let keys = scene.keys.clone();
    scene.pass(PERIOD).await;
    let conn = &mut scene.redis.connection;
    let first = scripts::refill(conn, &keys, 1, scripts::Look::All).await.unwrap();
    assert_eq!((first.credited, first.again), (1, first.now));
    // As if a period had passed since the first was credited.
    scene.pass(PERIOD).await;
    let rest = scripts::Look::Rest(first.now - PERIOD);
    let others = scripts::refill(&mut scene.redis.connection, &keys, 9, rest).await.unwrap();
    assert_eq!(others.credited, 2);
    assert!(others.again > others.now);
}

/// Also of more than one command has room for.
#[tokio::test]
async fn a_slice_credits_as_many_as_it_may_and_leaves_the_others_to_the_next() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "100/s")).await;
    for i in 0..5_000 {
        scene.take(&format!("user-{i}"), 10).await;
    }
    scene.pass(PERIOD).await;
    let (keys, look) = (scene.keys.clone(), scripts::Look::Due);
    let slice = scripts::refill(&mut scene.redis.connection, &keys, 3_500, look).await.unwrap();
    assert_eq!((slice.credited, slice.again), (3_500, slice.now));
    assert_eq!(scene.refill(5_000).await.credited, 1_500);
}

#[tokio::test]
async fn a_touched_lazy_bucket_expires_when_it_is_full_under_the_present_terms() {
    let mut lazy = limit(100, "1/s");
    lazy.algorithm = Algorithm::LazyTokenBucket;
    let mut scene = Scene::set(Redis::start().await, lazy.clone()).await;
    let state = scene.keys.state(lazy.algorithm, "a");
    let conn = &mut scene.redis.connection;
    scripts::settle(conn, lazy.algorithm, &scene.keys, "a", Operation::Take(60), true, None).await.unwrap();
    let minutes = |left: u64| (left + 30_000) / 60_000;
    assert_eq!(minutes(scene.redis.ask(&["PTTL", &state]).await), 1);
    lazy.terms.supply = topup_wire::limit::Supply::Rate("1/min".parse().unwrap());
    scene.publish(lazy, None).await;
    let conn = &mut scene.redis.connection;
    let node = &mut conn.clone();
    scripts::touch_states(conn, node, &scene.limit.name, Algorithm::LazyTokenBucket).await.unwrap();
    assert_eq!(minutes(scene.redis.ask(&["PTTL", &state]).await), 60);
}
