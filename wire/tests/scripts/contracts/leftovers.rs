//! What a removal cut short has left, and what the scripts make of it.

use topup_wire::{bucket::Operation, keyspace::ShardKeys, limit::Algorithm, reply::Verdict, scripts};

use crate::{draw::limit, server::Redis};

const TAKE: Operation = Operation::Take(1);

#[tokio::test]
async fn a_lazy_bucket_of_a_removed_limit_is_not_one_of_its_successor() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(&"mail".parse().unwrap(), 0);
    let mut limit = limit(10, "1/d");
    limit.algorithm = Algorithm::LazyTokenBucket;
    let conn = &mut redis.connection;
    for tokens in [9, 9] {
        scripts::publish(conn, &keys, &limit, None).await.unwrap();
        let settled = scripts::lazy(conn, &keys, "a", TAKE).await.unwrap();
        assert_eq!((settled.verdict, settled.tokens), (Verdict::Allowed, tokens));
        scripts::drop_record(conn, &keys).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_bare_decr_leaves_of_a_removed_limit_goes_with_the_next_question() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(&"mail".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    assert_eq!(scripts::decrement(conn, &keys.counter("a")).await.unwrap(), -1);
    assert_eq!(scripts::settle(conn, &keys, "a", TAKE).await.unwrap().verdict, Verdict::Unknown);
    assert!(redis.keyspace().await.is_empty());
}
