//! Corrupt keys: repaired by themselves within seconds, said in the log, counted in the status.

use topup_tests::{Redis, SOON, eventually};
use topup_wire::reply::Verdict;

use super::{bucket::Bucket, ready};

const LIMITS: &str = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 100\nrate = \"1/min\"\n\
                      [limit.user]\nkeyed = true\nshards = 8\ncapacity = 10\nrate = \"1/min\"\n";

async fn record(redis: &Redis, key: &str) -> Vec<(String, Vec<u8>)> {
    let mut fields: Vec<(String, Vec<u8>)> = redis.ask(&["HGETALL", key]).await;
    fields.retain(|(field, _)| field != "generation");
    fields.sort();
    fields
}

#[tokio::test]
async fn a_lost_record_is_restored_and_no_bucket_forgets() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    let bucket = Bucket::keyed(&redis, "user", "alice", 8);
    assert_eq!(bucket.take(9).await.tokens, 1);
    let key = bucket.keys.record.clone();
    let before = record(&redis, &key).await;
    let generation: u64 = redis.ask(&["GET", "topup:{topup}:generation"]).await;
    // A round asks for the length of the registry and of nine records, the first one twice of these. Then a second begins.
    eventually(SOON, async || redis.command_calls("hlen").await > 24).await;
    for damage in
        [["DEL", &key].as_slice(), &["HSET", &key, "packed", "x"], &["HSET", &key, "capacity", "1000000"]]
    {
        redis.ask::<u64>(damage).await;
        let line = daemon.wait_for_line("repaired: limit user, shard ", SOON).await;
        assert!(line.contains("WARN"), "{line}");
        assert_eq!(record(&redis, &key).await, before, "{damage:?}");
    }
    assert_eq!(bucket.peek().await.tokens, 1);
    eventually(SOON, async || redis.ask::<u64>(&["GET", "topup:{topup}:generation"]).await > generation)
        .await;
    eventually(SOON, async || {
        let details: Vec<String> = redis.ask(&["KEYS", "topup:{topup}:daemon:*"]).await;
        redis.ask::<String>(&["HGET", &details[0], "repaired"]).await == "3"
    })
    .await;
}

#[tokio::test]
async fn foreign_terms_that_were_even_announced_are_published_over() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    redis.ask::<u64>(&["HSET", "topup:{api:0}:limit", "capacity", "9000", "n", "1", "rate", "1/h"]).await;
    redis.ask::<u64>(&["INCR", "topup:{topup}:generation"]).await;
    daemon.wait_for_line("limit api is published with other terms", SOON).await;
    eventually(SOON, async || {
        record(&redis, "topup:{api:0}:limit").await.contains(&("rate".into(), b"1/min".into()))
    })
    .await;
    let bucket = Bucket::of(&redis, "api");
    eventually(SOON, async || bucket.peek().await.capacity == 100).await;
}

#[tokio::test]
async fn shared_keys_of_junk_stop_no_daemon() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    for (key, value) in [
        ("topup:{topup}:generation", "9223372036854775807"),
        ("topup:{topup}:generation", "inf"),
        ("topup:{topup}:daemons", "x"),
        ("topup:{topup}:limits", "x"),
    ] {
        redis.ask::<()>(&["SET", key, value]).await;
        daemon.wait_for_line("repaired: ", SOON).await;
    }
    eventually(SOON, async || redis.ask::<u64>(&["HLEN", "topup:{topup}:limits"]).await == 2).await;
    let bucket = Bucket::of(&redis, "api");
    assert_eq!(bucket.take(1).await.verdict, Verdict::Allowed);
    eventually(SOON, async || redis.ask::<u64>(&["GET", "topup:{topup}:generation"]).await < 1 << 50).await;
    eventually(SOON, async || redis.ask::<u64>(&["ZCARD", "topup:{topup}:daemons"]).await == 1).await;
}

/// Ten thousand fake entries in one limit's index delay no other limit, and leave one line in the log.
#[tokio::test]
async fn a_flood_of_fake_entries_delays_no_other_limit() {
    let redis = Redis::start().await;
    let config = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 10\nrate = \"100/s\"\ncatch_up = false\n\
                  [limit.user]\nkeyed = true\ncapacity = 10\nrate = \"10/s\"\n";
    let mut daemon = ready(config, &redis).await;
    let flood = "for i = 1, 5000 do redis.call('ZADD', KEYS[1], 'inf', 'x' .. i) \
                 redis.call('ZADD', KEYS[1], 1, 'y' .. i) end";
    redis.ask::<()>(&["EVAL", flood, "1", "topup:{user:0}:due"]).await;
    let bucket = Bucket::of(&redis, "api");
    for _ in 0..3 {
        bucket.drain().await;
        eventually(SOON, async || bucket.stored().await.is_none()).await;
    }
    daemon.wait_for_line("foreign or misplaced", SOON).await;
    eventually(SOON, async || redis.ask::<u64>(&["ZCARD", "topup:{user:0}:due"]).await == 0).await;
    assert_eq!(
        daemon.lines().iter().filter(|line| line.contains("repaired")).count(),
        1,
        "{:?}",
        daemon.lines()
    );
}
