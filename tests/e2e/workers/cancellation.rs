//! Takes given up at any point: no token is given twice, and the client goes on.

use std::{collections::BTreeSet, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{task::JoinSet, time::timeout};
use topup_tests::{Attempt, Proxy, SOON, Seed, clock, eventually, none_left, stalls::void};

use super::{
    fixture::{Fixture, Tasks, patient},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = r#"
[limit]
api = { capacity = 20, rate = "100/s" }
slow = { capacity = 2, rate = "1/60s" }
deep = { capacity = 10, rate = "1/60s" }
user = { keyed = true, capacity = 2, rate = "20/s" }
"#;

#[tokio::test]
async fn takes_given_up_at_any_point_give_no_token_twice() {
    let (fixture, seed) = (Fixture::set(CONFIG).await, Seed::new());
    let mut rng = StdRng::seed_from_u64(seed.number());
    let (mut attempts, mut given_up, begun) = (Vec::new(), 0, clock::now());
    while clock::now() - begun < 1_000_000 {
        // A take is some 50 µs on an idle machine: about half of them are cut short.
        let after = Duration::from_micros(rng.random_range(0..200));
        let bucket = fixture.bucket("api");
        match timeout_by_polls(&bucket, after).await {
            Some(attempt) => attempts.push(attempt),
            None => given_up += 1,
        }
    }
    println!("{given_up} given up, {} not", attempts.len());
    no_errors(&attempts);
    Oracle::new(20, 100.0).judge(&attempts).never_over();
    // The client goes on.
    let (bucket, mut allowed) = (fixture.bucket("api"), 0);
    eventually(SOON, async || {
        allowed += u32::from(bucket.take(1).await.unwrap().is_allowed());
        allowed >= 20
    })
    .await;
}

/// A take that is dropped after `after`, finer than the runtime's timer.
async fn timeout_by_polls(bucket: &topup::Bucket, after: Duration) -> Option<Attempt> {
    let begun = clock::now();
    let mut take = std::pin::pin!(Attempt::make(bucket));
    loop {
        tokio::select! {
            biased;
            attempt = &mut take => return Some(attempt),
            () = tokio::task::yield_now() => {
                if clock::now() - begun >= after.as_micros() as u64 {
                    return None;
                }
            }
        }
    }
}

#[tokio::test]
async fn takes_given_up_leave_no_key_once_the_buckets_are_full() {
    let (fixture, seed) = (Fixture::set(CONFIG).await, Seed::new());
    let mut rng = StdRng::seed_from_u64(seed.number());
    for _ in 0..2_000 {
        let bucket = fixture.bucket("user").key(rng.random_range(0..50).to_string());
        let after = Duration::from_micros(rng.random_range(0..200));
        let _ = timeout_by_polls(&bucket, after).await;
    }
    none_left(SOON, async || fixture.bucket_keys().await).await;
}

#[tokio::test]
async fn a_late_command_without_a_waiter_leaves_no_key() {
    let fixture = Fixture::set(CONFIG).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let topup = patient(proxy.url()).await;
    let slow = topup.limit("deep");
    for _ in 0..2 {
        assert!(slow.take(4).await.unwrap().is_allowed(), "known to be counting, and below full for minutes");
    }
    // As if it had been filled and forgotten while the next command was on its way.
    fixture.redis.ask::<u64>(&["DEL", "topup:{deep:0}:b:", "topup:{deep:0}:due"]).await;
    proxy.hang();
    assert!(timeout(Duration::from_millis(500), slow.take(1)).await.is_err());
    proxy.pass();
    let is_sent = eventually(SOON, async || fixture.redis.command_calls("decr").await > 0);
    if timeout(Duration::from_secs(5), is_sent).await.is_err() {
        void("a late command: the machine is too busy for a worker to know that the bucket counts");
    }
    none_left(SOON, async || fixture.bucket_keys().await).await;
}

#[tokio::test]
async fn a_waiter_that_gives_up_takes_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    assert!(slow.take(1).await.unwrap().is_allowed());
    for _ in 0..20 {
        let waited = timeout(Duration::from_millis(1), slow.wait(2, Duration::from_secs(600))).await;
        assert!(waited.is_err(), "the second token takes a minute");
    }
    assert_eq!(slow.peek().await.unwrap().remaining(), 1);
}

const SCRIPTED: &str = r#"
[limit]
gcra = { keyed = true, algorithm = "gcra", capacity = 3, rate = "5/s" }
lazy = { keyed = true, algorithm = "lazy-token-bucket", capacity = 3, rate = "5/s" }
leaky = { keyed = true, algorithm = "leaky-bucket", capacity = 3, rate = "5/s" }
window = { keyed = true, algorithm = "sliding-window", limit = 3, window = "1s" }
"#;

#[tokio::test]
async fn a_token_that_no_caller_got_is_not_given_twice_by_a_script() {
    let fixture = Fixture::set(SCRIPTED).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let far = patient(proxy.url()).await;
    let limits = ["window", "gcra", "lazy", "leaky"];
    for limit in limits {
        // The worker reads the record.
        assert!(far.limit(limit).key("another").take(1).await.unwrap().is_allowed());
    }
    let delay = Duration::from_millis(200);
    proxy.delay(delay);
    let mut given_up = JoinSet::new();
    for limit in limits {
        let bucket = far.limit(limit).key("one");
        given_up.spawn(async move { bucket.take(1).await });
    }
    let mut taken = BTreeSet::new();
    let all_taken = eventually(SOON, async || {
        taken.extend(fixture.bucket_keys().await.into_iter().filter(|key| key.ends_with(":one")));
        taken.len() == limits.len()
    });
    if timeout(Duration::from_secs(10), all_taken).await.is_err() {
        return void("a token that no caller got: the machine is too busy to see keys that live for 0.2 s");
    }
    // Redis has carried the takes out. A reply comes after one delay, and what the worker puts back after another one.
    given_up.abort_all();
    while let Some(ended) = given_up.join_next().await {
        if ended.is_ok() {
            return void(
                "a token that no caller got: the machine is too busy to give a take up before its reply",
            );
        }
    }
    let begun = clock::now();
    let mut running = Vec::new();
    for limit in limits {
        let bucket = fixture.bucket(limit).key("one");
        // The case: a bucket is full again before its token is put back. A window never is.
        if limit != "window" {
            eventually(SOON, async || bucket.peek().await.unwrap().remaining() == 3).await;
        }
        running.push((limit, Tasks::start([bucket], Duration::from_millis(2))));
    }
    eventually(SOON, async || clock::now() - begun >= 1_200_000).await;
    for (_, tasks) in &running {
        tasks.log.allowed(3).await;
    }
    for (limit, tasks) in running {
        let attempts = tasks.stop().await;
        no_errors(&attempts);
        let allowed: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.is_allowed()).collect();
        assert!(allowed.len() >= 3, "{limit}: {attempts:?}");
        if limit == "window" {
            for four in allowed.windows(4) {
                let within = four[3].received - four[0].sent;
                assert!(within >= 999_990, "law 1: four of 3 a second within {within} µs");
            }
        } else {
            println!("{limit}");
            Oracle { early: 0.0, ..Oracle::new(3, 5.0) }.judge(&attempts).never_over();
        }
    }
}
