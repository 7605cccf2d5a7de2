//! HUP: a new config is applied as a whole, or refused as a whole.

use std::collections::BTreeMap;

use topup_tests::{Launch, Redis, SOON, Signal, eventually};

use super::{bucket::Bucket, left_alone, looked, ready};

const SLOW: &str = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 10\nrate = \"5/s\"\n\
                    [limit.user]\nkeyed = true\ncapacity = 10\nrate = \"5/s\"\n";
const FAST: &str = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 20\nrate = \"50/s\"\n\
                    [limit.user]\nkeyed = true\ncapacity = 10\nrate = \"5/s\"\n";
const BAD: &str =
    "[daemon]\ntick = \"fast\"\n[limit.api]\ncapacity = 0\nrate = \"50\"\n[limit.\"a b\"]\nkeye = true\n";

async fn generation(redis: &Redis) -> u64 {
    redis.ask(&["GET", "topup:{topup}:generation"]).await
}

async fn record(redis: &Redis, field: &str) -> String {
    redis.ask(&["HGET", "topup:{api:0}:limit", field]).await
}

/// Every key but those by which a daemon says that it is alive, and since when it has its config.
async fn published(redis: &Redis) -> BTreeMap<String, Vec<u8>> {
    let mut dump = BTreeMap::new();
    for key in redis.ask::<Vec<String>>(&["KEYS", "*"]).await {
        let of_daemons = ["topup:{topup}:daemon", "topup:{topup}:owners", "topup:{topup}:claims"];
        if !of_daemons.iter().any(|start| key.starts_with(start)) {
            dump.insert(key.clone(), redis.ask(&["DUMP", &key]).await);
        }
    }
    dump
}

#[tokio::test]
async fn a_good_config_is_published_and_the_change_is_told() {
    let redis = Redis::start().await;
    let mut daemon = ready(SLOW, &redis).await;
    let known = generation(&redis).await;
    assert_eq!(record(&redis, "rate").await, "5/s");
    daemon.reload(FAST);
    let line = daemon.wait_for_line("reloaded: ", SOON).await;
    assert!(line.ends_with("reloaded: limit api: capacity 10 -> 20, rate 5/s -> 50/s"), "{line}");
    eventually(SOON, async || record(&redis, "rate").await == "50/s").await;
    assert_eq!(record(&redis, "capacity").await, "20");
    eventually(SOON, async || generation(&redis).await > known).await;
}

#[tokio::test]
async fn the_same_config_changes_nothing() {
    let redis = Redis::start().await;
    let mut daemon = ready(SLOW, &redis).await;
    let before = published(&redis).await;
    daemon.reload(SLOW);
    daemon.wait_for_line("reloaded: nothing has changed", SOON).await;
    looked(&redis, 5).await;
    assert_eq!(published(&redis).await, before);
}

#[tokio::test]
async fn a_bad_config_changes_nothing_and_every_mistake_is_told() {
    let redis = Redis::start().await;
    let mut daemon = ready(SLOW, &redis).await;
    let before = published(&redis).await;
    daemon.reload(BAD);
    for place in
        ["config.toml:2: daemon.tick", "config.toml:4: limit.api.capacity", "config.toml:5: limit.api.rate"]
    {
        let line = daemon.wait_for_line(place, SOON).await;
        assert!(line.contains("ERROR"), "{line}");
    }
    daemon.wait_for_line("config.toml:6: limit.\"a b\"", SOON).await;
    daemon.wait_for_line("the config is refused as a whole", SOON).await;
    looked(&redis, 5).await;
    assert_eq!(published(&redis).await, before);
    daemon.signal(Signal::USR1);
    daemon.wait_for_line("config on disk refused: config.toml:2: daemon.tick", SOON).await;
}

#[tokio::test]
async fn the_config_in_force_goes_on_behind_a_bad_one_until_a_good_one_comes() {
    let redis = Redis::start().await;
    let mut daemon = ready(SLOW, &redis).await;
    daemon.reload(BAD);
    daemon.wait_for_line("refused as a whole", SOON).await;
    let bucket = Bucket::of(&redis, "api");
    assert!(bucket.take(5).await.counting);
    eventually(SOON, async || bucket.stored().await.is_none()).await;
    daemon.reload(FAST);
    daemon.wait_for_line("reloaded: limit api", SOON).await;
    eventually(SOON, async || record(&redis, "rate").await == "50/s").await;
    daemon.signal(Signal::USR1);
    let line = daemon.wait_for_line("generation", SOON).await;
    assert!(!line.contains("refused"), "{line}");
}

#[tokio::test]
async fn a_config_that_is_gone_is_a_bad_one() {
    let redis = Redis::start().await;
    let mut daemon = ready(SLOW, &redis).await;
    std::fs::remove_file(daemon.config()).unwrap();
    daemon.signal(Signal::HUP);
    daemon.wait_for_line("cannot be read", SOON).await;
    daemon.wait_for_line("refused as a whole", SOON).await;
    assert_eq!(record(&redis, "rate").await, "5/s");
}

#[tokio::test]
async fn another_redis_takes_a_restart() {
    let (redis, other) = (Redis::start().await, Redis::start().await);
    let config = |redis: &Redis| format!("[redis]\nurl = \"{}\"\n{SLOW}", redis.url());
    let mut daemon = Launch::new(&config(&redis)).run();
    daemon.wait_for_line("ready", SOON).await;
    // Said as often as it is asked for.
    for _ in 0..2 {
        daemon.reload(&config(&other));
        daemon.wait_for_line("redis.url has changed: that takes a restart", SOON).await;
    }
    looked(&redis, 5).await;
    assert_eq!(other.dbsize().await, 0);
}

#[tokio::test]
async fn another_redis_that_is_overruled_takes_no_restart() {
    let redis = Redis::start().await;
    let mut daemon = ready(SLOW, &redis).await;
    daemon.reload(&format!("[redis]\nurl = \"redis://elsewhere:1234\"\n{SLOW}"));
    daemon.wait_for_line("reloaded: nothing has changed", SOON).await;
    assert!(!daemon.lines().iter().any(|line| line.contains("restart")), "{:?}", daemon.lines());
}

#[tokio::test]
async fn a_change_made_while_redis_is_away_is_published_when_it_is_back() {
    let (mut redis, mut daemon) = left_alone(SLOW).await;
    daemon.reload(FAST);
    daemon.wait_for_line("reloaded: limit api", SOON).await;
    redis.restart().await;
    eventually(SOON, async || {
        redis.ask::<Option<String>>(&["HGET", "topup:{api:0}:limit", "rate"]).await.as_deref() == Some("50/s")
    })
    .await;
}
