//! Law 7: refused operations change nothing.

use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, Key, LimitName, MAX_TOKENS},
    reply::Verdict,
    scripts,
};

use super::scene::Scene;
use crate::{
    generators::{limit, limit_of},
    server::{Keyspace, Redis},
};

const OPERATIONS: [Operation; 6] = [
    Operation::Take(1),
    Operation::Take(MAX_TOKENS),
    Operation::Peek(1),
    Operation::Share(3),
    Operation::Refund(1),
    Operation::Reset,
];

#[tokio::test]
async fn an_unknown_limit_leaves_no_key() {
    let mut scene = Scene::set(Redis::start().await, limit(1, "1/s")).await;
    scene.redis.ask::<()>(&["FLUSHALL"]).await;
    let conn = &mut scene.redis.connection;
    for operation in OPERATIONS {
        for algorithm in Algorithm::ALL {
            let settled =
                scripts::settle(conn, algorithm, &scene.keys, "a", operation, true, None).await.unwrap();
            assert_eq!(settled.verdict, Verdict::Unknown);
        }
    }
    let members = ["a".to_owned()];
    assert_eq!(scripts::refill(conn, &scene.keys, 9, scripts::Look::All).await.unwrap().credited, 0);
    assert_eq!(scripts::migrate(conn, &scene.keys, &members).await.unwrap().left, 0);
    assert_eq!(scripts::read_limit(conn, &scene.limit.name).await.unwrap(), None);
    assert_eq!(scene.redis.keyspace().await, Keyspace::new());
}

#[tokio::test]
async fn a_limit_of_another_algorithm_is_unknown_and_stays_as_it_is() {
    let mut redis = Redis::start().await;
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::set(redis, limit_of(algorithm, 3)).await;
        let before = scene.redis.keyspace().await;
        let conn = &mut scene.redis.connection;
        for other in Algorithm::ALL.into_iter().filter(|other| *other != algorithm) {
            for operation in OPERATIONS {
                let settled =
                    scripts::settle(conn, other, &scene.keys, "a", operation, true, None).await.unwrap();
                assert_eq!(settled.verdict, Verdict::Unknown);
            }
        }
        assert_eq!(scene.redis.keyspace().await, before);
        redis = scene.redis;
    }
}

#[tokio::test]
async fn a_take_of_more_than_the_capacity_changes_nothing() {
    let mut scene = Scene::set(Redis::start().await, limit(3, "1/s")).await;
    scene.take("held", 2).await;
    scene.pass(1_500_000).await;
    let before = scene.redis.keyspace().await;
    for member in ["held", "absent"] {
        for count in [4, 1_000, MAX_TOKENS] {
            for operation in [Operation::Take(count), Operation::Peek(count)] {
                let settled = scene.settle(member, operation).await;
                assert_eq!((settled.verdict, settled.capacity), (Verdict::ExceedsCapacity, 3));
            }
        }
    }
    assert_eq!(scene.redis.keyspace().await, before);
}

#[tokio::test]
async fn what_no_algorithm_allows_changes_nothing() {
    let mut redis = Redis::start().await;
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::set(redis, limit_of(algorithm, 3)).await;
        let (conn, keys) = (&mut scene.redis.connection, &scene.keys);
        for count in [0, 4, MAX_TOKENS] {
            let settled =
                scripts::settle(conn, algorithm, keys, "absent", Operation::Take(count), true, None)
                    .await
                    .unwrap();
            let expected = if count == 0 { Verdict::Allowed } else { Verdict::ExceedsCapacity };
            assert_eq!(settled.verdict, expected, "{algorithm}");
        }
        let published: Vec<String> = scene.redis.keyspace().await.into_keys().collect();
        assert_eq!(published, [scene.keys.record.as_str()], "a bucket at rest has no key: {algorithm}");
        let conn = &mut scene.redis.connection;
        scripts::settle(conn, algorithm, &scene.keys, "held", Operation::Take(2), true, None).await.unwrap();
        let before = scene.redis.keyspace().await;
        let conn = &mut scene.redis.connection;
        for operation in [Operation::Take(2), Operation::Take(4), Operation::Peek(1), Operation::Peek(4)] {
            let settled =
                scripts::settle(conn, algorithm, &scene.keys, "held", operation, true, None).await.unwrap();
            assert_eq!(settled.tokens, 1, "{algorithm}");
        }
        assert_eq!(scene.redis.keyspace().await, before, "{algorithm}");
        redis = scene.redis;
    }
}

#[test]
fn bad_names_and_keys_are_refused_before_redis_hears_of_them() {
    for name in ["", "a:b", "a b", "a{b}", "ä", &"n".repeat(65)] {
        name.parse::<LimitName>().unwrap_err();
    }
    for key in ["", &"k".repeat(257)] {
        Key::new(key).unwrap_err();
    }
}
