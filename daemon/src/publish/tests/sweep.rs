//! What is no bucket of any limit is found and removed, and nothing else.

use std::collections::BTreeSet;

use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName},
    scripts,
};

use super::Stage;
use crate::publish::{Announced, touch_at_rest};

const USER: &str = "[limit.user]\nkeyed = true\nshards = 1\ncapacity = 10\nrate = \"1/h\"\n";

/// A whole round of the slow sweep: how many keys it removed.
async fn sweep(stage: &Stage) -> usize {
    let conn = &mut stage.connection.clone();
    let published = scripts::published_limits(conn).await.unwrap();
    let (mut removed, mut cursor) = (0, Some(0));
    while let Some(from) = cursor {
        let (strays, next) =
            scripts::find_strays(&mut stage.connection.clone(), &published, from, 7).await.unwrap();
        for ((name, shard), members) in strays {
            removed += scripts::sweep_keys(conn, &ShardKeys::new(&name, shard), &members).await.unwrap();
        }
        cursor = next;
    }
    removed
}

async fn counters(stage: &Stage) -> BTreeSet<String> {
    stage.ask::<Vec<String>>(&["KEYS", "topup:{*}:b:*"]).await.into_iter().collect()
}

#[tokio::test]
async fn strays_go_and_buckets_stay() {
    let stage = Stage::set();
    stage.publish(USER, &Announced::new()).await;
    // Counting, at rest, and what late commands leave.
    stage.ask::<()>(&["SET", "topup:{user:0}:b:counts", "7"]).await;
    stage.ask::<u64>(&["ZADD", "topup:{user:0}:due", "1", "counts"]).await;
    stage.ask::<()>(&["SET", "topup:{user:0}:b:carried", "7"]).await;
    stage.ask::<u64>(&["ZADD", "topup:{user:0}:former", "1", "carried"]).await;
    stage.ask::<()>(&["SET", "topup:{user:0}:b:rests", "f00013", "PX", "60000"]).await;
    stage.ask::<()>(&["SET", "topup:{user:0}:b:number", "-2179534395775448100", "PX", "60000"]).await;
    stage.ask::<()>(&["SET", "topup:throttle:{a:1}:b:c", "1"]).await;
    let kept = counters(&stage).await;
    assert_eq!(sweep(&stage).await, 0);
    for member in 0..50 {
        stage.ask::<i64>(&["DECR", &format!("topup:{{user:0}}:b:late{member}")]).await;
    }
    stage.ask::<i64>(&["DECRBY", "topup:{user:0}:b:late0", "360000000000"]).await;
    // Of a shard, and of limits, that are no more.
    stage.ask::<i64>(&["DECR", "topup:{user:1}:b:late"]).await;
    stage.ask::<i64>(&["DECR", "topup:{gone:0}:b:"]).await;
    stage.ask::<()>(&["SET", "topup:{gone:3}:b:a", "f00013", "PX", "60000"]).await;
    assert_eq!(sweep(&stage).await, 53);
    assert_eq!(counters(&stage).await, kept);
}

#[tokio::test]
async fn what_became_a_bucket_since_it_was_found_stays() {
    let stage = Stage::set();
    stage.publish(USER, &Announced::new()).await;
    let keys = ShardKeys::new(&"user".parse().unwrap(), 0);
    let conn = &mut stage.connection.clone();
    scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", Operation::Take(5), true, 0).await.unwrap();
    let members = ["a".to_owned(), "none".to_owned()];
    assert_eq!(scripts::sweep_keys(conn, &keys, &members).await.unwrap(), 0);
    assert_eq!(counters(&stage).await.len(), 1);
}

#[tokio::test]
async fn a_removed_limit_leaves_nothing_at_rest() {
    let stage = Stage::set();
    stage.publish(USER, &Announced::new()).await;
    for member in 0..1_200 {
        stage.ask::<()>(&["SET", &format!("topup:{{user:0}}:b:{member}"), "f00013", "PX", "60000"]).await;
    }
    let none: &str = "[limit.other]\ncapacity = 1\nrate = \"1/s\"\n";
    stage.publish(none, &Announced::new()).await;
    assert_eq!(counters(&stage).await, BTreeSet::new());
    // A first take of a worker that has not heard yet.
    stage.ask::<()>(&["SET", "topup:{user:0}:b:late", "f00013", "PX", "60000"]).await;
    assert_eq!(sweep(&stage).await, 1);
}

#[tokio::test]
async fn buckets_at_rest_are_found_among_counters() {
    let stage = Stage::set();
    stage.publish(USER, &Announced::new()).await;
    let name: LimitName = "user".parse().unwrap();
    for member in 0..300 {
        let key = format!("topup:{{user:0}}:b:{member}");
        if member % 3 == 0 {
            // The second is one that a take of a bucket at rest has met.
            let counter = if member % 2 == 0 { "-3" } else { "-359999999997" };
            stage.ask::<()>(&["SET", &key, counter]).await;
        } else if member % 3 == 1 {
            stage.ask::<()>(&["SET", &key, "-2179534395775448100", "PX", "60000"]).await;
        } else {
            stage.ask::<()>(&["SET", &key, "f00013", "PX", "60000"]).await;
        }
    }
    let (mut found, mut cursor) = (BTreeSet::new(), Some(0));
    while let Some(from) = cursor {
        let some;
        (some, cursor) = scripts::find_at_rest(&mut stage.connection.clone(), &name, from).await.unwrap();
        found.extend(some);
    }
    assert_eq!(found.len(), 200);
    touch_at_rest(&stage.connection, &name).await.unwrap();
}
