//! The sweep finds and removes stray counters, and keeps every bucket.

use std::collections::BTreeSet;

use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName},
    namespace::Namespace,
    scripts,
};

use super::Fixture;
use crate::{
    publish::{FrozenShards, settle_at_rest},
    refill::strays::end_strays,
};

const USER: &str = "[limit.user]\nkeyed = true\nshards = 1\ncapacity = 10\nrate = \"1/h\"\n";

/// A whole round of the sweep. Returns the number of removed keys.
async fn sweep(fixture: &Fixture) -> usize {
    let conn = &mut fixture.connection.clone();
    let published = scripts::published_limits(conn).await.unwrap();
    let (mut removed, mut cursor) = (0, Some(0));
    while let Some(from) = cursor {
        let (strays, next) =
            scripts::find_strays(&mut fixture.connection.clone(), &published, from, 7).await.unwrap();
        removed += end_strays(conn, strays).await.unwrap();
        cursor = next;
    }
    removed
}

async fn counters(fixture: &Fixture) -> BTreeSet<String> {
    fixture.ask::<Vec<String>>(&["KEYS", "topup:{*}:b:*"]).await.into_iter().collect()
}

#[tokio::test]
async fn strays_go_and_buckets_stay() {
    let fixture = Fixture::start();
    fixture.publish(USER, &FrozenShards::new()).await;
    // Buckets that count, that migrate and that rest, and a key of another kind.
    fixture.ask::<()>(&["SET", "topup:{user:0}:b:counts", "7"]).await;
    fixture.ask::<u64>(&["ZADD", "topup:{user:0}:due", "1", "counts"]).await;
    fixture.ask::<()>(&["SET", "topup:{user:0}:b:carried", "7"]).await;
    fixture.ask::<u64>(&["ZADD", "topup:{user:0}:former", "1", "carried"]).await;
    fixture.ask::<()>(&["SET", "topup:{user:0}:b:rests", "f00013", "PX", "60000"]).await;
    fixture.ask::<()>(&["SET", "topup:{user:0}:b:number", "-2179534395775448100", "PX", "60000"]).await;
    fixture.ask::<()>(&["SET", "topup:throttle:{a:1}:b:c", "1"]).await;
    let kept = counters(&fixture).await;
    assert_eq!(sweep(&fixture).await, 0);
    for member in 0..50 {
        fixture.ask::<i64>(&["DECR", &format!("topup:{{user:0}}:b:late{member}")]).await;
    }
    fixture.ask::<i64>(&["DECRBY", "topup:{user:0}:b:late0", "360000000000"]).await;
    // Counters of a removed shard and of removed limits.
    fixture.ask::<i64>(&["DECR", "topup:{user:1}:b:late"]).await;
    fixture.ask::<i64>(&["DECR", "topup:{gone:0}:b:"]).await;
    fixture.ask::<()>(&["SET", "topup:{gone:3}:b:a", "f00013", "PX", "60000"]).await;
    assert_eq!(sweep(&fixture).await, 53);
    assert_eq!(counters(&fixture).await, kept);
}

#[tokio::test]
async fn a_stray_that_became_a_bucket_meanwhile_stays() {
    let fixture = Fixture::start();
    fixture.publish(USER, &FrozenShards::new()).await;
    let keys = ShardKeys::new(Namespace::default(), &"user".parse().unwrap(), 0);
    let conn = &mut fixture.connection.clone();
    scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", Operation::Take(5), true, None).await.unwrap();
    let members = ["a".to_owned(), "none".to_owned()];
    assert_eq!(scripts::sweep_keys(conn, &keys, &members).await.unwrap(), 0);
    assert_eq!(counters(&fixture).await.len(), 1);
}

#[tokio::test]
async fn a_window_without_an_end_gets_one() {
    let fixture = Fixture::start();
    let windows = "[limit.user]\nkeyed = true\nalgorithm = \"fixed-window\"\nlimit = 10\nwindow = \"1min\"\n";
    fixture.publish(windows, &FrozenShards::new()).await;
    // Workers have died before they said when. The limit of the last one is gone.
    let left = ["topup:{user:0}:f:a", "topup:{user:0}:f:b", "topup:{gone:0}:f:"];
    for key in left {
        fixture.ask::<i64>(&["INCRBY", key, "3"]).await;
    }
    fixture.ask::<()>(&["PEXPIRE", left[1], "30000"]).await;
    assert_eq!(sweep(&fixture).await, 0);
    let mut ends = Vec::new();
    for key in left {
        ends.push(fixture.ask::<i64>(&["PTTL", key]).await);
    }
    assert!(
        (30_001..60_000).contains(&ends[0]) && (1..=30_000).contains(&ends[1]) && ends[2] == -2,
        "{ends:?}"
    );
    assert_eq!(fixture.ask::<u64>(&["GET", left[0]]).await, 3);
}

#[tokio::test]
async fn a_removed_limit_leaves_nothing_at_rest() {
    let fixture = Fixture::start();
    fixture.publish(USER, &FrozenShards::new()).await;
    for member in 0..1_200 {
        fixture.ask::<()>(&["SET", &format!("topup:{{user:0}}:b:{member}"), "f00013", "PX", "60000"]).await;
    }
    let none: &str = "[limit.other]\ncapacity = 1\nrate = \"1/s\"\n";
    fixture.publish(none, &FrozenShards::new()).await;
    assert_eq!(counters(&fixture).await, BTreeSet::new());
    // A first take of a worker that does not know of the removal yet.
    fixture.ask::<()>(&["SET", "topup:{user:0}:b:late", "f00013", "PX", "60000"]).await;
    assert_eq!(sweep(&fixture).await, 1);
}

#[tokio::test]
async fn buckets_at_rest_are_found_among_counters() {
    let fixture = Fixture::start();
    fixture.publish(USER, &FrozenShards::new()).await;
    let name: LimitName = "user".parse().unwrap();
    for member in 0..300 {
        let key = format!("topup:{{user:0}}:b:{member}");
        if member % 3 == 0 {
            // The second is the trace of a take at rest.
            let counter = if member % 2 == 0 { "-3" } else { "-359999999997" };
            fixture.ask::<()>(&["SET", &key, counter]).await;
        } else if member % 3 == 1 {
            fixture.ask::<()>(&["SET", &key, "-2179534395775448100", "PX", "60000"]).await;
        } else {
            fixture.ask::<()>(&["SET", &key, "f00013", "PX", "60000"]).await;
        }
    }
    let (mut found, mut cursor) = (BTreeSet::new(), Some(0));
    while let Some(from) = cursor {
        let some;
        (some, cursor) = scripts::find_at_rest(&mut fixture.connection.clone(), &name, from).await.unwrap();
        found.extend(some);
    }
    assert_eq!(found.len(), 200);
    settle_at_rest(&fixture.connection, &name).await.unwrap();
}
