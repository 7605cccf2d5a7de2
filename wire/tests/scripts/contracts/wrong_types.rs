//! A key of another type than it should be is an error, and stays as it is.

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::Algorithm,
    namespace::Namespace,
    scripts::{self, Look},
};

use crate::{
    generators::{limit, limit_of},
    server::{Redis, publish},
};

const TAKE: Operation = Operation::Take(3);

fn assert_wrong_type<T: std::fmt::Debug>(result: RedisResult<T>) {
    let error = result.unwrap_err();
    // Redis 6.2 wraps the error of a command in one of the script.
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
}

#[tokio::test]
async fn a_key_of_a_wrong_type_is_an_error_and_stays() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let members = ["a".to_owned()];
    for key in [keys.record.clone(), keys.due.clone(), keys.counter("a")] {
        publish(&mut redis.connection, &keys, &limit(5, "1/d"), None).await.unwrap();
        scripts::settle(&mut redis.connection, Algorithm::TokenBucket, &keys, "a", TAKE, true, None)
            .await
            .unwrap();
        redis.ask::<()>(&["DEL", &key]).await;
        redis.ask::<()>(&["RPUSH", &key, "not ours"]).await;
        let before = redis.keyspace().await;
        let conn = &mut redis.connection;
        assert_wrong_type(scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", TAKE, true, None).await);
        if key == keys.counter("a") {
            assert_wrong_type(scripts::decrement(conn, &key, 1).await);
        } else {
            assert_wrong_type(scripts::refill(conn, &keys, 9, Look::Due).await);
        }
        if key == keys.record {
            assert_wrong_type(scripts::read_limit(conn, &"mail".parse().unwrap()).await);
            assert_wrong_type(scripts::migrate(conn, &keys, &members).await);
        }
        assert_eq!(redis.keyspace().await, before);
        redis.ask::<()>(&["FLUSHALL"]).await;
    }
}

/// One such counter must not keep a whole slice from being refilled, pass after pass.
#[tokio::test]
async fn a_counter_of_a_wrong_type_is_refilled_as_if_it_had_been_evicted() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    publish(conn, &keys, &limit(5, "1/s"), None).await.unwrap();
    for member in ["a", "b"] {
        scripts::settle(conn, Algorithm::TokenBucket, &keys, member, Operation::Take(5), true, None)
            .await
            .unwrap();
    }
    let counter = keys.counter("a");
    redis.ask::<()>(&["DEL", &counter]).await;
    redis.ask::<()>(&["RPUSH", &counter, "not ours"]).await;
    crate::travel::travel(&mut redis, &keys, 2_000_000).await;
    let refilled = scripts::refill(&mut redis.connection, &keys, 9, Look::Due).await.unwrap();
    assert_eq!((refilled.credited, refilled.tokens), (2, 4));
    assert_eq!(scripts::refill(&mut redis.connection, &keys, 9, Look::Due).await.unwrap().credited, 0);
    let settled = scripts::settle(
        &mut redis.connection,
        Algorithm::TokenBucket,
        &keys,
        "a",
        Operation::Peek(1),
        true,
        None,
    )
    .await
    .unwrap();
    assert_eq!(settled.tokens, 2);
}

#[tokio::test]
async fn a_state_of_a_wrong_type_is_an_error_and_stays() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    for algorithm in Algorithm::ALL {
        publish(&mut redis.connection, &keys, &limit_of(algorithm, 5), None).await.unwrap();
        redis.ask::<()>(&["SADD", &keys.state(algorithm, "a"), "not ours"]).await;
        let before = redis.keyspace().await;
        let reply =
            scripts::settle(&mut redis.connection, algorithm, &keys, "a", Operation::Reset, true, None).await;
        assert_wrong_type(reply);
        assert_wrong_type(
            scripts::settle(&mut redis.connection, algorithm, &keys, "a", TAKE, true, None).await,
        );
        assert_eq!(redis.keyspace().await, before, "{algorithm}");
        redis.ask::<()>(&["FLUSHALL"]).await;
    }
}
