//! Very many tasks that ask one bucket at once: what is taken ahead for them is never too much, and nothing of it is lost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::JoinSet;
use topup::{Bucket, Client};
use topup_tests::{Proxy, Redis, SOON, Stalls, clock, eventually};

use super::fixture::{Fixture, holds_all_but, patient};

const CONFIG: &str = r#"
[limit]
roomy = { capacity = 1_000_000_000, rate = "1/h" }
small = { capacity = 200_000, rate = "1/h" }
quick = { capacity = 50_000, rate = "100_000/s" }
none = { capacity = 1, rate = "1/h" }
spare = { capacity = 1_000_000, rate = "1_000_000/s" }
"#;

/// Tasks of one client.
const TASKS: usize = 128;

/// Many tasks on `bucket`, each of which takes for as long as `goes_on` says so. Each returns the tokens it took.
fn burst(bucket: &Bucket, goes_on: impl Fn(u64, bool) -> bool + Copy + Send + 'static) -> JoinSet<u64> {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let bucket = bucket.clone();
        tasks.spawn(async move {
            let (mut asked, mut allowed) = (0, 0);
            loop {
                let told = bucket.take(1).await.unwrap().is_allowed();
                asked += 1;
                allowed += u64::from(told);
                if !goes_on(asked, told) {
                    return allowed;
                }
                // Denied or served from memory, it would let nobody else run.
                if asked % 32 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    tasks
}

async fn sum(tasks: JoinSet<u64>) -> u64 {
    tasks.join_all().await.into_iter().sum()
}

async fn clients(redis: &Redis, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(patient(redis.url()).await);
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_takes_of_a_burst_cost_nothing_and_spare_tokens_go_back() {
    let fixture = Fixture::on(Redis::start().await, CONFIG).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let topup = patient(proxy.url()).await;
    let before = proxy.requests();
    let taken = sum(burst(&topup.limit("roomy"), |asked, _| asked < 1_000)).await;
    let sent = proxy.requests() - before;
    println!("{sent} commands for {taken} takes");
    assert_eq!(taken, 1_000 * TASKS as u64, "all allowed");
    assert!(sent * 20 <= taken, "{sent}");
    // Seen by somebody else, and soon.
    holds_all_but(taken, 1_000_000_000, &fixture.bucket("roomy")).await;
    assert_eq!(topup.prefetched_tokens(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn larger_takes_and_looks_count_the_tokens_in_hand() {
    let fixture = Fixture::set(CONFIG).await;
    let roomy = fixture.bucket("roomy");
    let taken = sum(burst(&roomy, |asked, _| asked < 1_000)).await;
    holds_all_but(taken, 1_000_000_000, &roomy).await;
    let more = sum(burst(&roomy, |asked, _| asked < 500)).await;
    let rest = 1_000_000_000 - taken - more;
    // Tokens in hand are in the bucket again some ms later.
    eventually(SOON, async || roomy.take(rest).await.unwrap().is_allowed()).await;
    assert!(!roomy.take(1).await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_several_workers_take_all_tokens_and_no_more() {
    let fixture = Fixture::set(CONFIG).await;
    let mut bursts = Vec::new();
    for topup in clients(&fixture.redis, 3).await {
        bursts.push((burst(&topup.limit("small"), |_, told| told), topup));
    }
    let mut taken = 0;
    for (tasks, _topup) in bursts {
        taken += sum(tasks).await;
    }
    assert!(taken <= 200_000, "{taken}");
    // A worker may have tokens in hand when others have taken the rest. They go back.
    holds_all_but(taken, 200_000, &fixture.bucket("small")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_above_the_rate_get_no_more_than_the_rate() {
    let fixture = Fixture::set(CONFIG).await;
    for (limit, capacity, rate) in [("quick", 50_000, 100_000), ("spare", 1_000_000, 1_000_000)] {
        let (started, mut bursts) = (clock::now(), Vec::new());
        // At least all tokens of the beginning, however slow the machine.
        let least = capacity.min(50_000);
        let had: &'static AtomicU64 = Box::leak(Box::default());
        for topup in clients(&fixture.redis, 3).await {
            let goes_on = move |_, told| {
                let had = had.fetch_add(u64::from(told), Relaxed);
                had < least || clock::now() < started + 800_000
            };
            bursts.push((burst(&topup.limit(limit), goes_on), topup));
        }
        let mut taken = 0;
        for (tasks, _topup) in bursts {
            taken += sum(tasks).await;
        }
        let passed = clock::now() - started;
        let most = capacity + rate * (passed + 100_000) / 1_000_000;
        println!("{limit}: {taken} of at most {most}");
        assert!(taken <= most, "{taken} of {most}");
        assert!(taken >= least, "{taken}: at least the tokens of the beginning");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_dropped_after_a_burst_gives_its_tokens_back() {
    let fixture = Fixture::set(CONFIG).await;
    let topup = patient(fixture.redis.url()).await;
    let taken = sum(burst(&topup.limit("roomy"), |asked, _| asked < 1_000)).await;
    drop(topup);
    holds_all_but(taken, 1_000_000_000, &fixture.bucket("roomy")).await;
}

/// On a single thread: a storm that is answered from memory is no reason for anything else to stand still.
#[tokio::test]
async fn answers_from_memory_let_other_tasks_run() {
    let fixture = Fixture::set(CONFIG).await;
    let bucket = fixture.bucket("none");
    assert!(bucket.take(1).await.unwrap().is_allowed());
    let storm = tokio::spawn(async move { while !bucket.take(1).await.unwrap().is_allowed() {} });
    let (started, stalls) = (clock::now(), Stalls::watch());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let passed = Duration::from_micros(clock::now() - started);
    storm.abort();
    assert!(passed < stalls.allow(Duration::from_secs(1)), "{passed:?} for 100 turns");
}
