//! What the daemon asks before it sends a slice.

use topup_wire::{bucket::Operation, limit::Algorithm, scripts};

use crate::{draw::limit, laws::Scene, server::Redis};

#[tokio::test]
async fn the_longest_waiting_come_first_and_up_to_the_bound() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "1/d")).await;
    let mut taken = Vec::new();
    for member in ["c", "a", "b"] {
        taken.push(scene.settle(member, Operation::Take(1)).await.now);
        scene.pass(1_000).await;
    }
    let at = |i: usize| taken[i].checked_add_signed(-scene.passed).unwrap();
    let (bounds, keys) = ([at(0) - 1, at(0), at(2)], scene.keys.clone());
    let conn = &mut scene.redis.connection;
    let due = [
        scripts::list_due(conn, &keys, bounds[0], 9).await.unwrap(),
        scripts::list_due(conn, &keys, bounds[1], 9).await.unwrap(),
        scripts::list_due(conn, &keys, bounds[2], 9).await.unwrap(),
        scripts::list_due(conn, &keys, bounds[2], 2).await.unwrap(),
        scripts::list_future(conn, &keys, bounds[1], 9).await.unwrap(),
    ];
    let expected: [&[&str]; 5] = [&[], &["c"], &["c", "a", "b"], &["c", "a"], &["a", "b"]];
    assert_eq!(due.each_ref().map(Vec::as_slice), expected);
    assert_eq!(scripts::earliest(conn, &keys).await.unwrap(), Some(bounds[1]));
    assert_eq!(scripts::count_active(conn, &keys).await.unwrap(), 3);
}

#[tokio::test]
async fn a_touched_lazy_bucket_expires_when_it_is_full_under_the_present_terms() {
    let mut lazy = limit(100, "1/s");
    lazy.algorithm = Algorithm::LazyTokenBucket;
    let mut scene = Scene::set(Redis::start().await, lazy.clone()).await;
    let state = scene.keys.lazy_state("a");
    let conn = &mut scene.redis.connection;
    scripts::lazy(conn, &scene.keys, "a", Operation::Take(60)).await.unwrap();
    let minutes = |left: u64| (left + 30_000) / 60_000;
    assert_eq!(minutes(scene.redis.ask(&["PTTL", &state]).await), 1);
    lazy.terms.supply = topup_wire::limit::Supply::Rate("1/min".parse().unwrap());
    scene.publish(lazy, None).await;
    let mut cursor = 0;
    loop {
        scripts::touch_lazy(&mut scene.redis.connection, &scene.keys, &mut cursor).await.unwrap();
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(minutes(scene.redis.ask(&["PTTL", &state]).await), 60);
}
