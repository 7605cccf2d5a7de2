//! A Redis that has forgotten: its scripts, or everything.

use rand::{RngExt, seq::IndexedRandom};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::Algorithm,
    namespace::Namespace,
    reply::{PublishReply, Verdict},
    scripts::{self, Health, Look},
};

use crate::{
    generators::{limit, seeds},
    server::{Keyspace, Redis, publish},
};

const TAKE: Operation = Operation::Take(1);

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let mut changed = limit(10, "1/s");
    for capacity in [10, 20] {
        changed.terms.capacity = topup_wire::limit::Capacity::new(capacity).unwrap();
        let members = ["a".to_owned()];
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        publish(&mut redis.connection, &keys, &changed, None).await.unwrap();
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        scripts::settle(&mut redis.connection, Algorithm::TokenBucket, &keys, "a", TAKE, true, None)
            .await
            .unwrap();
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        scripts::refill(&mut redis.connection, &keys, 9, Look::Due).await.unwrap();
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        scripts::migrate(&mut redis.connection, &keys, &members).await.unwrap();
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_script_only()) {
            scripts::settle(&mut redis.connection, algorithm, &keys, "a", TAKE, true, None).await.unwrap();
            redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        }
        scripts::sweep_counters(&mut redis.connection, &keys, 1).await.unwrap();
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        let second = std::time::Duration::from_secs(1);
        scripts::heartbeat(&mut redis.connection, "d", second, &Health::default()).await.unwrap();
        redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(scripts::poll(&mut redis.connection).await.unwrap().daemons, 1);
    }
    assert_eq!(
        scripts::settle(&mut redis.connection, Algorithm::TokenBucket, &keys, "a", TAKE, true, None)
            .await
            .unwrap()
            .tokens,
        7
    );
}

#[tokio::test]
async fn a_flushed_redis_knows_no_limit_and_keeps_no_key_of_one() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let members = ["a".to_owned(), "b".to_owned()];
    for (_seed, mut rng) in seeds(20) {
        publish(&mut redis.connection, &keys, &limit(5, "3/s"), None).await.unwrap();
        let flush_after = rng.random_range(0..20);
        for step in 0..30 {
            if step == flush_after {
                redis.ask::<()>(&["FLUSHALL"]).await;
            }
            let conn = &mut redis.connection;
            let member = members.choose(&mut rng).unwrap();
            match rng.random_range(0..6) {
                0 => drop(scripts::refill(conn, &keys, 9, Look::Due).await.unwrap()),
                1 => drop(scripts::migrate(conn, &keys, &members).await.unwrap()),
                2 => drop(scripts::refill(conn, &keys, 9, Look::All).await.unwrap()),
                way => {
                    // A worker that still believes the bucket to be below full.
                    let bare = if way == 3 {
                        scripts::decrement(conn, &keys.counter(member), 1).await
                    } else {
                        Ok(-1)
                    };
                    if bare.is_ok_and(|left| left >= 0) {
                        continue;
                    }
                    let settled =
                        scripts::settle(conn, Algorithm::TokenBucket, &keys, member, TAKE, true, None)
                            .await
                            .unwrap();
                    assert_eq!(settled.verdict == Verdict::Unknown, step >= flush_after);
                }
            }
        }
        assert_eq!(redis.keyspace().await, Keyspace::new());
        // Published again, it begins anew.
        let again = publish(&mut redis.connection, &keys, &limit(5, "3/s"), None).await.unwrap();
        assert_eq!(again, PublishReply::Created);
        let settled =
            scripts::settle(&mut redis.connection, Algorithm::TokenBucket, &keys, "a", TAKE, true, None)
                .await
                .unwrap();
        assert_eq!(settled.tokens, 4);
        redis.ask::<()>(&["FLUSHALL"]).await;
    }
}
