//! Law 4 across reloads: what leaves the config leaves Redis.

use std::collections::BTreeSet;

use topup_tests::{Redis, SOON, Signal, eventually, none_left};
use topup_wire::{
    bucket::Operation,
    keyspace::{ShardKeys, shard_of},
    limit::{Algorithm, Shards},
    namespace::Namespace,
    scripts,
};

use super::{bucket::Bucket, ready, reload};

const OTHER: &str =
    "name = \"shop\"\n[daemon]\ntick = \"20ms\"\n[limit.other]\ncapacity = 1\nrate = \"1/s\"\n";
const KEYS: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];

/// A limit so slow that no bucket fills during the test.
fn user(settings: &str) -> String {
    format!("{OTHER}[limit.user]\ncapacity = 10\nrate = \"1/h\"\n{settings}")
}

async fn take_each(redis: &Redis, shards: u64) {
    for key in KEYS {
        assert_eq!(Bucket::keyed(redis, "user", key, shards).take(3).await.tokens, 7);
    }
    // One at rest, in no index.
    let at_rest = Bucket::keyed(redis, "user", "grace", shards);
    assert_eq!((at_rest.take(1).await.tokens, at_rest.stored().await), (9, None));
}

async fn take_each_lazily(redis: &Redis, shards: u64) {
    for key in KEYS {
        let shard = shard_of(key, Shards::new(shards).unwrap());
        let keys = ShardKeys::new(Namespace::default(), &"user".parse().unwrap(), shard);
        let (conn, lazy) = (&mut redis.connection(), Algorithm::LazyTokenBucket);
        let taken = scripts::settle(conn, lazy, &keys, key, Operation::Take(3), false, None).await;
        assert_eq!(taken.unwrap().tokens, 7);
    }
}

/// Waits until the keys of limit `user` are its records in so many shards, and nothing else.
async fn only_records(redis: &Redis, shards: u16) {
    let name = "user".parse().unwrap();
    let wanted: BTreeSet<String> =
        (0..shards).map(|shard| ShardKeys::new(Namespace::default(), &name, shard).record).collect();
    eventually(SOON, async || {
        let found: BTreeSet<String> =
            redis.ask::<Vec<String>>(&["KEYS", "topup:{user:*"]).await.into_iter().collect();
        if found == wanted { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_is_removed_leaves_no_key() {
    let redis = Redis::start().await;
    let mut daemon = ready(OTHER, &redis).await;
    let without = redis.dbsize().await;
    for settings in ["keyed = true", "keyed = true\nalgorithm = \"lazy-token-bucket\"", ""] {
        reload(&mut daemon, &user(settings)).await;
        let shards = if settings.is_empty() { 1 } else { 8 };
        only_records(&redis, shards).await;
        match settings {
            "" => assert_eq!(Bucket::of(&redis, "user").take(3).await.tokens, 7),
            "keyed = true" => take_each(&redis, 8).await,
            _ => take_each_lazily(&redis, 8).await,
        }
        assert!(redis.dbsize().await > without + u64::from(shards));
        reload(&mut daemon, OTHER).await;
        eventually(SOON, async || {
            let found: Vec<String> = redis.ask(&["KEYS", "*"]).await;
            if found.len() as u64 == without { Ok(()) } else { Err(found) }
        })
        .await;
    }
}

#[tokio::test]
async fn fewer_shards_leave_nothing_in_those_that_are_gone() {
    let redis = Redis::start().await;
    let mut daemon = ready(&user("keyed = true\nshards = 16"), &redis).await;
    take_each(&redis, 16).await;
    reload(&mut daemon, &user("keyed = true\nshards = 1")).await;
    let gone = async || {
        let mut found: Vec<String> = redis.ask(&["KEYS", "topup:{user:*"]).await;
        found.retain(|key| !key.starts_with("topup:{user:0}"));
        found
    };
    none_left(SOON, gone).await;
    reload(&mut daemon, &user("keyed = true\nshards = 4")).await;
    eventually(SOON, async || redis.ask::<Vec<String>>(&["KEYS", "topup:{user:*}:limit"]).await.len() == 4)
        .await;
    reload(&mut daemon, OTHER).await;
    only_records(&redis, 0).await;
}

#[tokio::test]
async fn fewer_shards_leave_no_lazy_bucket_either() {
    let redis = Redis::start().await;
    let lazy =
        |shards: u64| user(&format!("keyed = true\nshards = {shards}\nalgorithm = \"lazy-token-bucket\""));
    let mut daemon = ready(&lazy(16), &redis).await;
    take_each_lazily(&redis, 16).await;
    reload(&mut daemon, &lazy(1)).await;
    only_records(&redis, 1).await;
}

/// Buckets of keys would be no bucket of a limit that has one for all, and the other way round.
#[tokio::test]
async fn a_limit_that_becomes_keyed_or_unkeyed_begins_anew() {
    let redis = Redis::start().await;
    let mut daemon = ready(&user("keyed = true\nshards = 1"), &redis).await;
    take_each(&redis, 1).await;
    reload(&mut daemon, &user("")).await;
    only_records(&redis, 1).await;
    assert_eq!(Bucket::of(&redis, "user").take(3).await.tokens, 7);
    reload(&mut daemon, &user("keyed = true\nshards = 1")).await;
    only_records(&redis, 1).await;
}

#[tokio::test]
async fn another_algorithm_begins_anew() {
    let redis = Redis::start().await;
    let lazy = user("keyed = true\nalgorithm = \"lazy-token-bucket\"");
    let mut daemon = ready(&user("keyed = true"), &redis).await;
    take_each(&redis, 8).await;
    reload(&mut daemon, &lazy).await;
    only_records(&redis, 8).await;
    take_each_lazily(&redis, 8).await;
    reload(&mut daemon, &user("keyed = true")).await;
    only_records(&redis, 8).await;
}

#[tokio::test]
async fn a_limit_half_removed_is_removed_by_the_next_daemon() {
    let redis = Redis::start().await;
    let mut daemon = ready(&user("keyed = true"), &redis).await;
    take_each(&redis, 8).await;
    daemon.end(Signal::KILL, SOON).await;
    // As one killed between two commands leaves it: some records gone, their buckets still there.
    redis.ask::<u64>(&["DEL", "topup:{user:0}:limit", "topup:{user:1}:limit", "topup:{user:5}:limit"]).await;
    let _daemon = ready(OTHER, &redis).await;
    only_records(&redis, 0).await;
    // The heartbeat of the killed daemon outlives it for a minute.
    let mut found: Vec<String> = redis.ask(&["KEYS", "*"]).await;
    found.retain(|key| !key.starts_with("topup:{topup}:daemon"));
    found.sort();
    let shared = ["claims", "generation", "limits", "owners", "schema"];
    let shared = shared.map(|what| format!("topup:{{topup}}:{what}"));
    assert_eq!(found[0], "topup:{other:0}:limit");
    assert_eq!(found[1..], shared);
    // It leaves the registry last.
    eventually(SOON, async || {
        let registered: Vec<String> = redis.ask(&["HKEYS", "topup:{topup}:limits"]).await;
        if registered == ["other"] { Ok(()) } else { Err(registered) }
    })
    .await;
}
