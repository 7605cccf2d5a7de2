//! Tokens taken ahead: fast, and never more than the limit allows.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};
use topup::{Bucket, Client};
use topup_tests::{Attempt, Proxy, Redis, SOON, Seed, Stalls, eventually};

use super::{
    fixture::{Fixture, holds_all_but, patient},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = r#"
[limit]
api = { capacity = 100, rate = "200/s", lease = { max = 50, ttl = "1s" } }
roomy = { capacity = 1_000_000, rate = "1000/s", lease = { max = 1000 } }
brief = { capacity = 1000, rate = "1/h", lease = { max = 100, ttl = "100ms" } }
lasting = { capacity = 1000, rate = "1/h", lease = { max = 100, ttl = "60s" } }
shared = { capacity = 1000, rate = "1/min", lease = { max = 100, ttl = "60s" } }
"#;

#[tokio::test]
async fn most_takes_of_a_leased_bucket_cost_nothing() {
    const TAKES: u64 = 20_000;
    let fixture = Fixture::on(Redis::start().await, CONFIG).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let topup = patient(proxy.url()).await;
    let roomy = topup.limit("roomy");
    // A worker that is slower than the rate would leave the bucket full, and no token is in hand of such a bucket.
    assert!(roomy.take(400_000).await.unwrap().is_allowed());
    let before = proxy.requests();
    for _ in 0..TAKES {
        assert!(roomy.take(1).await.unwrap().is_allowed());
    }
    let sent = proxy.requests() - before;
    println!("{sent} commands for {TAKES} takes");
    assert!(sent * 20 <= TAKES, "{sent}");
    assert!(topup.prefetched_tokens() <= 1_000, "{} held", topup.prefetched_tokens());
}

#[tokio::test]
async fn a_leased_token_is_taken_without_waiting() {
    let fixture = Fixture::set(CONFIG).await;
    let roomy = fixture.bucket("roomy");
    // Tokens may be in hand only while the bucket with them is below full.
    for _ in 0..2 {
        assert!(roomy.take(400_000).await.unwrap().is_allowed());
    }
    // None are there yet, but will be soon.
    eventually(SOON, async || roomy.try_take().is_some_and(|told| told.is_allowed())).await;
    let slow = fixture.topup.limit("no such limit");
    assert_eq!(slow.try_take(), None);
}

#[tokio::test]
async fn worker_processes_with_leases_keep_the_law_under_overload() {
    let fixture = Fixture::set(CONFIG).await;
    let (workers, stalls) = (fixture.workers(4, "api", Duration::from_millis(2)).await, Stalls::watch());
    workers.log.allowed(600).await;
    let attempts = workers.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(100, 200.0).judge(&attempts).never_over();
    println!("{judgement:?}");
    // A worker that is kept from running loses the tokens it has in hand.
    judgement.gives_most(&stalls);
}

#[tokio::test]
async fn clients_with_leases_keep_the_law_in_bursts() {
    const BURSTS: usize = 7;
    let (fixture, seed) = (Fixture::set(CONFIG).await, Seed::new());
    let mut clients = JoinSet::new();
    for number in 0..4 {
        let topup: Client = patient(fixture.redis.url()).await;
        let mut rng = StdRng::seed_from_u64(seed.number() + number);
        let watched = fixture.bucket("api");
        clients.spawn(async move {
            let bucket = topup.limit("api");
            let (mut attempts, mut looks) = (Vec::new(), interval(Duration::from_millis(5)));
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for _ in 0..BURSTS {
                // A few takes, then a pause in which the bucket fills, then all its tokens.
                for _ in 0..rng.random_range(1..60) {
                    attempts.push(Attempt::make(&bucket).await);
                }
                let wanted = rng.random_range(0..=90);
                let filled = async {
                    while watched.peek().await.unwrap().remaining() < wanted {
                        looks.tick().await;
                    }
                };
                timeout(SOON, filled).await.unwrap();
            }
            attempts
        });
    }
    let mut attempts = clients.join_all().await.concat();
    attempts.sort_by_key(|attempt| attempt.received);
    no_errors(&attempts);
    let judgement = Oracle::new(100, 200.0).judge(&attempts).never_over();
    println!("{judgement:?}");
}

#[tokio::test]
async fn nothing_is_held_for_longer_than_said() {
    let fixture = Fixture::set(CONFIG).await;
    let brief = fixture.bucket("brief");
    // A lease may just be used up, or over on a machine that stalls: then there is another.
    eventually(SOON, async || {
        for _ in 0..7 {
            assert!(brief.take(1).await.unwrap().is_allowed());
        }
        fixture.topup.prefetched_tokens() > 0
    })
    .await;
    eventually(SOON, async || fixture.topup.prefetched_tokens() == 0).await;
}

/// Takes of `bucket` until some are held that have not been spent: how many were.
async fn taken_with_some_held(topup: &Client, bucket: &Bucket) -> u64 {
    let mut taken = 0;
    eventually(SOON, async || {
        for _ in 0..7 {
            assert!(bucket.take(1).await.unwrap().is_allowed());
            taken += 1;
        }
        topup.prefetched_tokens() > 0
    })
    .await;
    taken
}

#[tokio::test]
async fn leased_tokens_go_back_when_their_time_is_over() {
    let fixture = Fixture::set(CONFIG).await;
    let topup = patient(fixture.redis.url()).await;
    let taken = taken_with_some_held(&topup, &topup.limit("brief")).await;
    holds_all_but(taken, 1_000, &fixture.bucket("brief")).await;
    assert_eq!(topup.prefetched_tokens(), 0);
}

#[tokio::test]
async fn a_client_that_is_dropped_or_told_to_gives_back_what_it_holds() {
    let fixture = Fixture::set(CONFIG).await;
    let topup = patient(fixture.redis.url()).await;
    let mut taken = taken_with_some_held(&topup, &topup.limit("lasting")).await;
    topup.put_back().await;
    assert_eq!(fixture.bucket("lasting").peek().await.unwrap().remaining() + taken, 1_000, "at once");
    taken += taken_with_some_held(&topup, &topup.limit("lasting")).await;
    drop(topup);
    holds_all_but(taken, 1_000, &fixture.bucket("lasting")).await;
}

/// The client's own tasks put tokens back when their time is over, unless they cannot run.
#[tokio::test]
async fn a_dropped_client_gives_back_what_its_tasks_had_no_time_for() {
    let fixture = Fixture::set(CONFIG).await;
    let topup = patient(fixture.redis.url()).await;
    let taken = taken_with_some_held(&topup, &topup.limit("brief")).await;
    // The only thread of the runtime.
    while topup.prefetched_tokens() > 0 {
        std::thread::yield_now();
    }
    drop(topup);
    holds_all_but(taken, 1_000, &fixture.bucket("brief")).await;
}

#[tokio::test]
async fn leased_tokens_do_not_go_back_after_takes_of_others() {
    let fixture = Fixture::set(CONFIG).await;
    let topup = patient(fixture.redis.url()).await;
    let mut taken = taken_with_some_held(&topup, &topup.limit("shared")).await;
    let held = topup.prefetched_tokens();
    // Somebody else learns of the bucket without them.
    assert!(fixture.bucket("shared").take(2).await.unwrap().is_allowed());
    taken += 2;
    topup.put_back().await;
    // More may have been on its way than was held, and a minute may bring a token.
    let left = fixture.bucket("shared").peek().await.unwrap().remaining();
    assert!(held > 1 && left + taken + held <= 1_001, "{left} left, {taken} taken, {held} held");
    assert_eq!(topup.prefetched_tokens(), 0);
}
