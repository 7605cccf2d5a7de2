//! Cost follows active buckets and the tokens they get, never the tick and never what is configured.

use std::fmt::Write;

use topup_tests::{Redis, SOON, eventually};

use super::{bucket::Bucket, looked, now, ready};

/// Commands that Redis carries out in each second, those of scripts included.
async fn commands_in_a_second(redis: &Redis) -> u64 {
    let begun = now(redis).await;
    redis.reset_stats().await;
    let (mut ours, mut ended) = (0, begun);
    eventually(SOON, async || {
        ours += 1;
        ended = now(redis).await;
        ended > begun + 1_000_000
    })
    .await;
    let stats: String = redis.ask(&["INFO", "stats"]).await;
    let all = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    let now = now(redis).await.max(ended);
    (all.unwrap().trim().parse::<u64>().unwrap() - ours) * 1_000_000 / (now - begun)
}

#[tokio::test]
async fn an_idle_daemon_asks_little() {
    let redis = Redis::start().await;
    let _daemon = ready("[limit.api]\ncapacity = 10\nrate = \"5/s\"\n", &redis).await;
    eventually(SOON, async || {
        let commands = commands_in_a_second(&redis).await;
        if (10..=250).contains(&commands) { Ok(()) } else { Err(commands) }
    })
    .await;
}

#[tokio::test]
async fn a_hundred_idle_limits_cost_little_more() {
    let redis = Redis::start().await;
    let config = (0..100).fold(String::new(), |mut config, limit| {
        let _ = write!(config, "[limit.user{limit}]\nkeyed = true\ncapacity = 10\nrate = \"100/s\"\n");
        config
    });
    let _daemon = ready(&config, &redis).await;
    // The first check of all records may come in the first second, or later on a busy machine.
    eventually(SOON, async || {
        let commands = commands_in_a_second(&redis).await;
        if commands <= 4_000 { Ok(()) } else { Err(commands) }
    })
    .await;
}

/// `incrby` is asked by the refill script alone, once for each bucket that is due.
#[tokio::test]
async fn a_slow_limit_is_touched_once_a_token() {
    let redis = Redis::start().await;
    let limit = "[daemon]\ntick = \"10ms\"\n[limit.api]\ncapacity = 2\nrate = \"1/2s\"\n";
    let _daemon = ready(limit, &redis).await;
    redis.reset_stats().await;
    let bucket = Bucket::of(&redis, "api");
    bucket.drain().await;
    eventually(SOON, async || bucket.stored().await.is_none()).await;
    assert_eq!(redis.command_calls("incrby").await, 2);
    looked(&redis, 3).await;
    assert_eq!(redis.command_calls("incrby").await, 2, "none for a full bucket");
}

/// One script credits all buckets that come due between two looks.
#[tokio::test]
async fn buckets_are_credited_in_slices() {
    let redis = Redis::start().await;
    let limit =
        "[daemon]\ntick = \"10ms\"\n[limit.user]\nkeyed = true\nshards = 1\ncapacity = 10\nrate = \"4/s\"\n";
    let _daemon = ready(limit, &redis).await;
    for key in 0..300 {
        Bucket::keyed(&redis, "user", &key.to_string(), 1).take(3).await;
    }
    redis.reset_stats().await;
    eventually(SOON, async || redis.ask::<u64>(&["EXISTS", "topup:{user:0}:due"]).await == 0).await;
    let batches = redis.command_calls("unlink").await;
    assert!((1..=100).contains(&batches), "{batches} batches for 300 buckets");
}
