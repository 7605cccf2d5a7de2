//! Penalties: a key that is denied again and again is blocked for all workers, and no other key is.

use std::time::Duration;

use serde_json::Value;
use topup::{Client, Decision};
use topup_tests::{Cli, Redis, SOON, eventually};

use super::fixture::{Fixture, patient};

/// A key of `login` has a token each second, and no test lasts as long as its block.
const CONFIG: &str = r#"
[limit.login]
keyed = true
capacity = 2
rate = "1/s"
penalty = { after = 5, within = "1min", block = "10min" }

[limit.mild]
keyed = true
capacity = 2
rate = "1/s"

[limit.growing]
keyed = true
capacity = 1
rate = "1000/s"
penalty = { after = 3, within = "1min", block = "1s", factor = 10 }
"#;

/// The wait that a denied take of `key` is told.
async fn wait(topup: &Client, limit: &str, key: &str) -> Duration {
    topup.limit(limit).key(key).peek().await.unwrap().retry_after().unwrap_or_default()
}

/// Takes until `count` takes have been denied.
async fn be_denied(topup: &Client, limit: &str, key: &str, count: usize) {
    let mut denied = 0;
    while denied < count {
        denied += usize::from(!topup.limit(limit).key(key).take(1).await.unwrap().is_allowed());
    }
}

async fn block_of(redis: &Redis, key: &str) -> Vec<Option<String>> {
    redis.ask(&["HMGET", key, "denied", "blocks"]).await
}

#[tokio::test]
async fn a_key_that_is_denied_again_and_again_is_blocked_for_all_workers_until_it_is_let_go() {
    let fixture = Fixture::set(CONFIG).await;
    let others = [patient(fixture.redis.url()).await, patient(fixture.redis.url()).await];
    // Four by one worker, and the fifth by another.
    be_denied(&fixture.topup, "login", "eve }:limit", 4).await;
    for limit in ["login", "mild"] {
        be_denied(&fixture.topup, limit, "alice", 4).await;
    }
    be_denied(&fixture.topup, "mild", "eve }:limit", 50).await;
    fixture.topup.put_back().await;
    be_denied(&others[0], "login", "eve }:limit", 1).await;
    let minute = Duration::from_secs(60);
    for topup in others.iter().chain([&fixture.topup]) {
        eventually(SOON, async || wait(topup, "login", "eve }:limit").await > minute).await;
        assert!(wait(topup, "login", "eve }:limit").await <= 10 * minute);
        for (limit, key) in [("login", "alice"), ("mild", "alice"), ("mild", "eve }:limit"), ("login", "eve")]
        {
            assert!(wait(topup, limit, key).await <= Duration::from_secs(1), "{limit} {key}");
        }
    }
    // Denied takes within the block count for nothing.
    be_denied(&others[1], "login", "eve }:limit", 20).await;
    others[1].put_back().await;
    let key = "topup:{login:0}:penalty:eve }:limit";
    assert_eq!(block_of(&fixture.redis, key).await, [Some("0".to_owned()), Some("1".to_owned())]);

    let told = Cli::new(&["status", "--json"]).redis(&fixture.redis).run().await;
    let status: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(status["pauses"][0]["limit"], "login", "{told:?}");
    let let_go = Cli::new(&["resume", "login", "--key", "eve }:limit"]).redis(&fixture.redis).run().await;
    assert_eq!(let_go.code, Some(0), "{let_go:?}");
    for topup in &others {
        let bucket = topup.limit("login").key("eve }:limit");
        let take = async || matches!(bucket.take(1).await.unwrap(), Decision::Allowed { .. });
        eventually(SOON, take).await;
    }
}

/// A block ends, and its last denied takes are handed over only then. A pause of another kind is the same.
#[tokio::test]
async fn takes_that_a_pause_denies_earn_no_block_however_late_they_are_handed_over() {
    let fixture = Fixture::set(CONFIG).await;
    let key = fixture.topup.limit("login").key("carl");
    be_denied(&fixture.topup, "login", "carl", 1).await;
    key.pause(Duration::from_secs(60)).await.unwrap();
    be_denied(&fixture.topup, "login", "carl", 20).await;
    key.resume().await.unwrap();
    fixture.topup.put_back().await;
    // The first denial may be on its way with a hand-over that began before.
    let key = "topup:{login:0}:penalty:carl";
    let known = eventually(SOON, async || {
        let known = block_of(&fixture.redis, key).await;
        known[0].is_some().then_some(known)
    })
    .await;
    assert_eq!(known, [Some("1".to_owned()), Some("0".to_owned())]);
}

/// Time is that of the server: blocks grow from 1 s to 10 s.
#[tokio::test]
async fn the_next_block_is_longer_and_a_process_that_ends_hands_its_denials_over() {
    let fixture = Fixture::set(CONFIG).await;
    let key = "topup:{growing:0}:penalty:bot";
    for blocks in 1..=2 {
        // The end of a client hands over what it has counted.
        let short = patient(fixture.redis.url()).await;
        eventually(SOON, async || {
            be_denied(&short, "growing", "bot", 3).await;
            short.put_back().await;
            block_of(&fixture.redis, key).await[1].as_deref() == Some(&*blocks.to_string())
        })
        .await;
    }
    eventually(SOON, async || wait(&fixture.topup, "growing", "bot").await > Duration::from_secs(2)).await;
    let left: u64 = fixture.redis.ask(&["PTTL", key]).await;
    assert!((40_000..=60_000).contains(&left), "{left}");
}

#[tokio::test]
async fn takes_by_hand_count_for_the_penalty_and_the_most_denied_keys() {
    let fixture = Fixture::set(&CONFIG.replacen("rate = \"1/s\"", "rate = \"1/h\"\ntop_keys = 20", 1)).await;
    let run = async |args: &[&str]| Cli::new(args).redis(&fixture.redis).run().await;
    let take = ["take", "login", "--key", "eve"];
    for allowed in [true, true, false, false, false, false, false] {
        assert_eq!(run(&take).await.code, Some(i32::from(!allowed)));
    }
    eventually(SOON, async || {
        let told = run(&["status", "--json"]).await;
        let status: Value = serde_json::from_str(&told.stdout).unwrap();
        status["pauses"][0]["key"] == "eve"
    })
    .await;
    // The block denies this take, which counts for the most denied keys alone.
    assert_eq!(run(&take).await.code, Some(1));
    let key = "topup:{login:0}:penalty:eve";
    assert_eq!(block_of(&fixture.redis, key).await, [Some("0".to_owned()), Some("1".to_owned())]);
    let told = run(&["status", "--json"]).await;
    let status: Value = serde_json::from_str(&told.stdout).unwrap();
    let login = status["limits"].as_array().unwrap().iter().find(|limit| limit["name"] == "login").unwrap();
    assert_eq!(login["top_denied"]["keys"], serde_json::json!([{ "key": "eve", "denied": 6 }]), "{login}");
}
