//! Commands for a take. A proxy counts the client's, so that the daemon's are left out.

use std::time::Duration;

use tokio::task::JoinSet;
use topup::Client;
use topup_tests::{Proxy, Redis, SOON, Stalls, clock, eventually};

use super::fixture::{Fixture, patient};

const CONFIG: &str = r#"
[limit]
# So slow that takes empty it on any machine. A bucket that fills again is asked by a script.
roomy = { capacity = 1_000_000, rate = "10/s" }
slow = { capacity = 1, rate = "1/60s" }
visitor = { keyed = true, capacity = 1, rate = "1/s" }
guest = { keyed = true, capacity = 5, rate = "1/60s" }
"#;

/// Beside takes, a client polls four times a second, hands its counts over, and says who it is when it connects.
fn few(since: u64) -> u64 {
    20 + 10 * (clock::now() - since) / 1_000_000
}

struct Counted {
    fixture: Fixture,
    proxy: Proxy,
    topup: Client,
}

// === impl Counted ===

impl Counted {
    async fn set() -> Self {
        let fixture = Fixture::on(Redis::start().await, CONFIG).await;
        let proxy = Proxy::before(&fixture.redis).await;
        let topup = patient(proxy.url()).await;
        Self { fixture, proxy, topup }
    }
}

#[tokio::test]
async fn an_allowed_take_is_one_decr() {
    const TAKES: u64 = 10_000;
    let Counted { fixture, proxy, topup } = Counted::set().await;
    let stalls = Stalls::watch();
    fixture.redis.reset_stats().await;
    let (roomy, before) = (topup.limit("roomy"), proxy.requests());
    for _ in 0..TAKES {
        assert!(roomy.take(1).await.unwrap().is_allowed());
    }
    let (decr, sent) = (fixture.redis.command_calls("decr").await, proxy.requests() - before);
    let usec = fixture.redis.command_usec("decr").await as f64 / decr as f64;
    println!("{decr} DECR of {TAKES} takes, {usec:.2} µs of Redis each; {sent} commands in all");
    // A worker that is kept from running trusts its knowledge less often.
    if !stalls.below(Duration::from_millis(50), "commands of a take") {
        return;
    }
    assert!(decr * 100 >= TAKES * 90, "{decr} of {TAKES}");
    assert!(sent * 100 <= TAKES * 110, "{sent} for {TAKES}");
}

#[tokio::test]
async fn a_denial_storm_costs_redis_nothing() {
    let Counted { fixture: _stage, proxy, topup } = Counted::set().await;
    let slow = topup.limit("slow");
    assert!(slow.take(1).await.unwrap().is_allowed());
    let (begun, before) = (clock::now(), proxy.requests());
    for _ in 0..10_000 {
        assert!(!slow.take(1).await.unwrap().is_allowed());
    }
    let sent = proxy.requests() - before;
    println!("{sent} commands for 10000 denials");
    assert!(sent <= few(begun), "{sent}");
}

#[tokio::test]
async fn a_key_seen_for_the_first_time_costs_one_command() {
    const KEYS: u64 = 1_000;
    let Counted { fixture: _stage, proxy, topup } = Counted::set().await;
    assert!(topup.limit("guest").key("the first loads the script").take(1).await.unwrap().is_allowed());
    let (begun, before) = (clock::now(), proxy.requests());
    for key in 0..KEYS {
        assert!(topup.limit("guest").key(key.to_string()).take(1).await.unwrap().is_allowed());
    }
    let sent = proxy.requests() - before;
    assert!((KEYS..=KEYS + few(begun)).contains(&sent), "{sent} for {KEYS}");
}

#[tokio::test]
async fn keys_of_the_past_cost_nothing() {
    const KEYS: usize = 20_000;
    const TASKS: usize = 32;
    let fixture = Fixture::set(CONFIG).await;
    let records = fixture.redis.dbsize().await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let visitor = fixture.bucket("visitor");
        tasks.spawn(async move {
            for key in (task..KEYS).step_by(TASKS) {
                assert!(visitor.clone().key(format!("visitor {key}")).take(1).await.unwrap().is_allowed());
            }
        });
    }
    tasks.join_all().await;
    eventually(SOON, async || {
        let keys = fixture.redis.dbsize().await;
        // The counts of the limit are one key.
        if keys <= records + 1 { Ok(()) } else { Err(format!("{keys} keys, {records} before")) }
    })
    .await;
    assert_eq!(fixture.bucket_keys().await, [""; 0]);
}
