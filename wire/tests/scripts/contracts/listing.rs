//! Which buckets a slice is for, and when the daemon is to look again.

use topup_wire::{bucket::Operation, limit::Algorithm, scripts};

use crate::{draw::limit, laws::Scene, server::Redis};

const TICK: u64 = 100_000;

#[tokio::test]
async fn the_longest_waiting_come_first_and_the_reply_says_when_to_look_again() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "1/s")).await;
    let mut taken = Vec::new();
    for member in ["c", "a", "b"] {
        taken.push(scene.settle(member, Operation::Take(5)).await.now);
        scene.pass(400_000).await;
    }
    let (keys, look) = (scene.keys.clone(), scripts::Look::Due);
    let first = scripts::refill(&mut scene.redis.connection, &keys, 1, look).await.unwrap();
    assert_eq!((first.credited, first.again), (1, first.now));
    assert_eq!((scene.tokens("c").await, scene.tokens("b").await), (6, 5));
    let second = scripts::refill(&mut scene.redis.connection, &keys, 9, look).await.unwrap();
    assert_eq!((second.credited, scene.instant(second.again)), (0, taken[1] + 1_000_000));
    assert_eq!(scripts::count_active(&mut scene.redis.connection, &keys).await.unwrap(), 3);
}

#[tokio::test]
async fn the_farther_from_full_the_less_often_a_bucket_is_credited() {
    let mut scene = Scene::set(Redis::start().await, limit(1_000, "100/s")).await;
    for (member, count) in [("near", 50), ("far", 200), ("farthest", 1_000)] {
        scene.take(member, count).await;
    }
    let mut credited = Vec::new();
    for _ in 0..65 {
        scene.pass(TICK).await;
        credited.push(scene.refill(9).await.credited);
    }
    // Each of them at each tick would be 90.
    assert!((10..=20).contains(&credited.iter().sum::<u64>()), "{credited:?}");
    scene.take("far", 1).await;
    assert_eq!(scene.tokens("near").await, 1_000);
    scene.take("near", 50).await;
    assert!((640..800).contains(&scene.tokens("farthest").await));
    // All are, once, when what was known of them may be wrong.
    scene.pass(TICK).await;
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
    scene.pass(TICK).await;
    let conn = &mut scene.redis.connection;
    let first = scripts::refill(conn, &keys, 1, scripts::Look::All).await.unwrap();
    assert_eq!((first.credited, first.again), (1, first.now));
    // As if a tick had passed since the first was credited.
    scene.pass(TICK).await;
    let rest = scripts::Look::Rest(first.now - TICK);
    let others = scripts::refill(&mut scene.redis.connection, &keys, 9, rest).await.unwrap();
    assert_eq!(others.credited, 2);
    assert!(others.again > others.now);
}

/// More than a slice may take are left to the next.
#[tokio::test]
async fn a_slice_ends_by_itself() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "100/s")).await;
    for i in 0..5_000 {
        scene.take(&format!("user-{i}"), 10).await;
    }
    scene.pass(TICK).await;
    let (keys, look) = (scene.keys.clone(), scripts::Look::Due);
    let slice = scripts::refill(&mut scene.redis.connection, &keys, 4_000, look).await.unwrap();
    // Redis 7.2 to 7.4 have no clock that goes on while a script runs, and end with the most they were asked for.
    assert!((40..=4_000).contains(&slice.credited), "{slice:?}");
    assert_eq!(slice.again, slice.now);
    assert_eq!(scene.refill(5_000).await.credited, 5_000 - slice.credited);
}

#[tokio::test]
async fn a_touched_lazy_bucket_expires_when_it_is_full_under_the_present_terms() {
    let mut lazy = limit(100, "1/s");
    lazy.algorithm = Algorithm::LazyTokenBucket;
    let mut scene = Scene::set(Redis::start().await, lazy.clone()).await;
    let state = scene.keys.state(lazy.algorithm, "a");
    let conn = &mut scene.redis.connection;
    scripts::operate(conn, lazy.algorithm, &scene.keys, "a", Operation::Take(60)).await.unwrap();
    let minutes = |left: u64| (left + 30_000) / 60_000;
    assert_eq!(minutes(scene.redis.ask(&["PTTL", &state]).await), 1);
    lazy.terms.supply = topup_wire::limit::Supply::Rate("1/min".parse().unwrap());
    scene.publish(lazy, None).await;
    let conn = &mut scene.redis.connection;
    let node = &mut conn.clone();
    scripts::touch_states(conn, node, &scene.limit.name, Algorithm::LazyTokenBucket).await.unwrap();
    assert_eq!(minutes(scene.redis.ask(&["PTTL", &state]).await), 60);
}
