//! Keys that an unfinished removal has left, and how scripts treat them.

use redis::aio::MultiplexedConnection;
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Supply},
    namespace::Namespace,
    reply::Verdict,
    scripts,
};

use crate::{
    generators::limit_of,
    server::{Redis, publish},
};

const TAKE: Operation = Operation::Take(1);
const PEEK: Operation = Operation::Peek(1);

#[tokio::test]
async fn a_bucket_of_a_removed_limit_is_not_one_of_its_successor() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_script_only()) {
        let limit = limit_of(algorithm, 10);
        // Tokens taken within a window stay taken, under any name. Buckets at rest are swept with their limit.
        let stays = matches!(limit.terms.supply, Supply::Windows(_)) || algorithm == Algorithm::Gcra;
        let second = if stays { 8 } else { 9 };
        for tokens in [9, second] {
            publish(conn, &keys, &limit, None).await.unwrap();
            let settled = scripts::settle(conn, algorithm, &keys, "a", TAKE, true, None).await.unwrap();
            assert_eq!((settled.verdict, settled.tokens), (Verdict::Allowed, tokens), "{algorithm}");
            scripts::drop_record(conn, &keys).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_bare_decr_leaves_of_a_removed_limit_goes_with_the_next_question() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    assert_eq!(scripts::decrement(conn, &keys.counter("a"), 1).await.unwrap(), -1);
    assert_eq!(
        scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", TAKE, true, None).await.unwrap().verdict,
        Verdict::Unknown
    );
    assert!(redis.keyspace().await.is_empty());
}

/// A removal takes many steps, between which the limit may be published again.
#[tokio::test]
async fn states_of_a_limit_that_is_published_again_stay() {
    let mut redis = Redis::start().await;
    let name = "mail".parse().unwrap();
    let keys = ShardKeys::new(Namespace::default(), &name, 0);
    for algorithm in Algorithm::ALL {
        let conn = &mut redis.connection;
        publish(conn, &keys, &limit_of(algorithm, 10), None).await.unwrap();
        let taken = scripts::settle(conn, algorithm, &keys, "a", TAKE, true, None).await.unwrap();
        assert_eq!((taken.verdict, taken.tokens), (Verdict::Allowed, 9), "{algorithm}");
        let sweep = async |conn: &mut MultiplexedConnection| {
            scripts::sweep_states(&mut conn.clone(), conn, &name, algorithm, 0).await.unwrap();
        };
        sweep(conn).await;
        let left = scripts::settle(conn, algorithm, &keys, "a", PEEK, true, None).await.unwrap();
        assert_eq!(left.tokens, 9, "{algorithm}");
        scripts::drop_record(conn, &keys).await.unwrap();
        assert!(!redis.keyspace().await.is_empty(), "{algorithm}");
        sweep(&mut redis.connection).await;
        assert!(redis.keyspace().await.is_empty(), "{algorithm}");
    }
}
