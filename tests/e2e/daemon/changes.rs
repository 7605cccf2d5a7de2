//! Law 6 and the tick: a change reaches buckets that are being filled.

use topup_tests::{Redis, SOON, eventually};

use super::{bucket::Bucket, looked, ready, reload};

fn config(tick: &str, limit: &str) -> String {
    format!("[daemon]\ntick = \"{tick}\"\n[limit.api]\n{limit}\n")
}

#[tokio::test]
async fn a_shorter_tick_takes_effect() {
    let redis = Redis::start().await;
    let limit = "capacity = 10\nrate = \"1000/s\"";
    let mut daemon = ready(&config("60s", limit), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await;
    looked(&redis, 1).await;
    assert!(
        bucket.stored().await.is_some_and(|stored| stored.score < drained.now + 3),
        "a minute has not passed"
    );
    reload(&mut daemon, &config("10ms", limit)).await;
    assert!(
        daemon.lines().iter().any(|line| line.ends_with("reloaded: tick 60s -> 10ms")),
        "{:?}",
        daemon.lines()
    );
    eventually(SOON, async || bucket.stored().await.is_none()).await;
    assert_eq!(redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "tick"]).await, "10000");
}

#[tokio::test]
async fn time_before_a_change_of_rate_is_credited_at_the_old_rate() {
    let redis = Redis::start().await;
    let mut daemon = ready(&config("20ms", "capacity = 100000\nrate = \"100/s\""), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await;
    looked(&redis, 2).await;
    reload(&mut daemon, &config("20ms", "capacity = 100000\nrate = \"1000/s\"")).await;
    let since = async || redis.ask::<u64>(&["HGET", "topup:{api:0}:limit", "since"]).await;
    eventually(SOON, async || since().await > drained.now).await;
    looked(&redis, 2).await;
    let (since, seen) = (since().await, bucket.peek().await);
    let owed = (since - drained.now) / 10_000 + (seen.now - since) / 1_000;
    assert!(seen.tokens.abs_diff(owed) <= 2, "{} tokens, {owed} owed", seen.tokens);
}

#[tokio::test]
async fn a_lower_capacity_clamps_and_a_higher_one_gives_nothing() {
    let redis = Redis::start().await;
    let mut daemon = ready(&config("20ms", "capacity = 100\nrate = \"1/h\""), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    bucket.take(10).await;
    for (capacity, tokens) in [(50, 50), (80, 50), (200, 50)] {
        reload(&mut daemon, &config("20ms", &format!("capacity = {capacity}\nrate = \"1/h\""))).await;
        eventually(SOON, async || {
            let seen = bucket.peek().await;
            if seen.capacity == capacity { Ok(()) } else { Err(seen) }
        })
        .await;
        assert_eq!(bucket.peek().await.tokens, tokens, "at capacity {capacity}");
    }
}

/// Without a further take, its key would expire when the old rate had filled it.
#[tokio::test]
async fn a_bucket_at_rest_is_full_when_the_new_rate_has_filled_it() {
    const HOUR: u64 = 3_600_000;
    /// A key outlives its bucket by so many ms.
    const LONGER: u64 = 1_010;
    let redis = Redis::start().await;
    let limit =
        |rate: &str| config("20ms", &format!("keyed = true\nshards = 1\ncapacity = 10\nrate = \"{rate}\""));
    let mut daemon = ready(&limit("1/h"), &redis).await;
    for key in 0..20 {
        Bucket::keyed(&redis, "api", &key.to_string(), 1).take(1).await;
    }
    let expire = async || {
        let mut all = Vec::new();
        for key in 0..20 {
            all.push(redis.ask::<u64>(&["PTTL", &format!("topup:{{api:0}}:b:{key}")]).await);
        }
        all
    };
    let all = expire().await;
    assert!(all.iter().all(|ms| (HOUR / 2..=HOUR + LONGER).contains(ms)), "{all:?}");
    reload(&mut daemon, &limit("1/2h")).await;
    eventually(SOON, async || {
        let all = expire().await;
        if all.iter().all(|ms| (3 * HOUR / 2..=2 * HOUR + LONGER).contains(ms)) { Ok(()) } else { Err(all) }
    })
    .await;
}
