//! Publishing, migrating and sweeping, and the keys that they leave alone.

use topup_wire::{
    bucket::Operation, keyspace::ShardKeys, limit::Algorithm, namespace::Namespace, reply::PublishReply,
    scripts,
};

use crate::{
    generators::limit,
    server::{Redis, publish},
};

const TAKE: Operation = Operation::Take(3);

#[tokio::test]
async fn a_change_that_workers_have_worked_off_stands_in_nobodys_way() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    publish(conn, &keys, &limit(10, "1/d"), None).await.unwrap();
    scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", TAKE, true, None).await.unwrap();
    let changed = publish(conn, &keys, &limit(20, "1/d"), None).await.unwrap();
    assert_eq!(changed, PublishReply::Changed);
    let busy = publish(conn, &keys, &limit(30, "1/d"), None).await.unwrap();
    assert_eq!(busy, PublishReply::Busy);
    // The one bucket to be migrated is, by a take and no daemon.
    assert_eq!(
        scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", TAKE, true, None).await.unwrap().tokens,
        4
    );
    let changed = publish(conn, &keys, &limit(30, "1/d"), None).await.unwrap();
    assert_eq!(changed, PublishReply::Changed);
    assert_eq!(
        scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", TAKE, true, None).await.unwrap().tokens,
        1
    );
    // The record says so as soon as a daemon has looked.
    assert!(scripts::is_migrating(conn, &keys).await.unwrap());
    assert_eq!(scripts::migrate(conn, &keys, &[""; 0]).await.unwrap().left, 0);
    assert!(!scripts::is_migrating(conn, &keys).await.unwrap());
}

#[tokio::test]
async fn buckets_of_a_published_limit_cannot_be_swept() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let mut limit = limit(10, "1/d");
    let conn = &mut redis.connection;
    publish(conn, &keys, &limit, None).await.unwrap();
    for member in ["a", "b"] {
        scripts::settle(conn, Algorithm::TokenBucket, &keys, member, TAKE, true, None).await.unwrap();
    }
    assert_eq!(scripts::sweep_counters(conn, &keys, 10).await.unwrap(), 0);
    assert_eq!(
        scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", TAKE, true, None).await.unwrap().tokens,
        4
    );

    // Once they are another algorithm's, they can.
    limit.algorithm = Algorithm::LazyTokenBucket;
    publish(conn, &keys, &limit, None).await.unwrap();
    assert_eq!(scripts::sweep_counters(conn, &keys, 10).await.unwrap(), 2);
    assert_eq!(redis.keyspace().await.into_keys().collect::<Vec<_>>(), [keys.record]);
}
