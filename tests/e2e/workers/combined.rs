//! Takes of many tasks that share their commands.

use std::{sync::Arc, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{sync::Mutex, task::JoinSet, time::timeout};
use topup_tests::{Proxy, Redis, SOON, Seed, clock, eventually};

use super::fixture::{Fixture, patient};

/// Longer than any test: who waits it out has failed.
const LONG: Duration = Duration::from_secs(600);

const CONFIG: &str = r#"
[limit]
roomy = { capacity = 1_000_000, rate = "1/h" }
few = { capacity = 1_000, rate = "1/h" }
busy = { capacity = 1, rate = "500/s" }
slow = { capacity = 10, rate = "100/s" }
wide = { capacity = 5, rate = "100/s" }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_want_the_same_bucket_share_commands_and_get_a_token_each() {
    const TASKS: u64 = 256;
    const TAKES: u64 = 100;
    let fixture = Fixture::on(Redis::start().await, CONFIG).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let topup = patient(proxy.url()).await;
    let (roomy, before) = (topup.limit("roomy"), proxy.requests());
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let roomy = roomy.clone();
        tasks.spawn(async move {
            for _ in 0..TAKES {
                let told = roomy.take(1).await.unwrap();
                assert!(told.is_allowed() && told.remaining() < 1_000_000, "{told:?}");
            }
        });
    }
    tasks.join_all().await;
    let sent = proxy.requests() - before;
    println!("{sent} commands for {} takes", TASKS * TAKES);
    assert!(sent * 10 <= TASKS * TAKES * 3, "{sent}");
    // Tokens taken ahead are in the bucket again some ms later.
    let left = async || roomy.peek().await.unwrap().remaining() == 1_000_000 - TASKS * TAKES;
    eventually(SOON, left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_of_three_clients_get_every_token_once() {
    let fixture = Fixture::set(CONFIG).await;
    let others = [patient(fixture.redis.url()).await, patient(fixture.redis.url()).await];
    let mut tasks = JoinSet::new();
    for task in 0..300 {
        let few = [&fixture.topup, &others[0], &others[1]][task % 3].limit("few");
        tasks.spawn(async move {
            let mut allowed = 0;
            for _ in 0..10 {
                allowed += u64::from(few.take(1).await.unwrap().is_allowed());
            }
            allowed
        });
    }
    let taken = tasks.join_all().await.into_iter().sum::<u64>();
    // Tokens taken ahead may be in hand when the last take is denied. They go back.
    let few = fixture.bucket("few");
    eventually(SOON, async || few.peek().await.unwrap().remaining() + taken == 1_000).await;
    assert!(taken > 900, "{taken}: hardly any goes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_given_up_while_others_go_on_lose_no_token() {
    const TASKS: u64 = 40;
    let (fixture, seed) = (Fixture::set(CONFIG).await, Seed::new());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let roomy = fixture.bucket("roomy");
        let mut rng = StdRng::seed_from_u64(seed.number() + task);
        tasks.spawn(async move {
            let mut allowed = 0;
            for _ in 0..200 {
                let after = Duration::from_micros(rng.random_range(0..400));
                if let Ok(told) = timeout(after, roomy.take(1)).await {
                    allowed += u64::from(told.unwrap().is_allowed());
                }
            }
            allowed
        });
    }
    let allowed: u64 = tasks.join_all().await.into_iter().sum();
    println!("{allowed} of {} not given up", TASKS * 200);
    // Tokens of those who left go to others, or back.
    topup_tests::eventually(SOON, async || {
        let left = fixture.bucket("roomy").peek().await.unwrap().remaining();
        if left == 1_000_000 - allowed { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn waiters_are_served_in_turn_for_a_command_a_token() {
    assert!(all_in_turn("busy", 500).await >= 990_000, "500 tokens at 500 a second");
}

#[tokio::test]
#[ignore = "100 s"]
async fn ten_thousand_wait_for_a_hundred_a_second() {
    let took = all_in_turn("slow", 10_000).await;
    assert!((99_800_000..101_000_000).contains(&took), "9,991 tokens at 100 a second took {took} µs");
}

/// Waiters of `limit` are served in turn, a token each. Returns the time that it took, in µs.
async fn all_in_turn(limit: &str, waiters: usize) -> u64 {
    let fixture = Fixture::on(Redis::start().await, CONFIG).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let topup = patient(proxy.url()).await;
    let bucket = topup.limit(limit);
    assert!(bucket.take(1).await.unwrap().is_allowed());
    let (before, begun) = (proxy.requests(), clock::now());
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = JoinSet::new();
    for number in 0..waiters {
        let (bucket, served) = (bucket.clone(), served.clone());
        waiting.spawn(async move {
            assert!(bucket.wait(1, LONG).await.unwrap().is_allowed());
            served.lock().await.push(number);
        });
    }
    waiting.join_all().await;
    let (sent, took) = (proxy.requests() - before, clock::now() - begun);
    println!("{sent} commands for {waiters} tokens in {took} µs");
    assert!(served.lock().await.is_sorted(), "each in turn");
    assert!(sent <= 3 * waiters as u64, "{sent} commands");
    took
}

#[tokio::test]
async fn waiters_that_leave_make_way_for_those_behind() {
    let fixture = Fixture::set(CONFIG).await;
    let wide = fixture.bucket("wide");
    assert!(wide.take(5).await.unwrap().is_allowed());
    let waiter = |count| {
        let wide = wide.clone();
        tokio::spawn(async move { wide.wait(count, LONG).await.unwrap().is_allowed() })
    };
    let first: Vec<_> = [5, 1, 5, 2].map(waiter).into();
    let last = waiter(3);
    tokio::task::yield_now().await;
    for waiter in &first {
        waiter.abort();
    }
    let begun = clock::now();
    assert!(timeout(SOON, last).await.unwrap().unwrap());
    assert!(clock::now() - begun < 1_000_000, "13 tokens ahead, which nobody wants any more");
    // None of theirs is lost.
    topup_tests::eventually(SOON, async || wide.peek().await.unwrap().remaining() == 5).await;
}
