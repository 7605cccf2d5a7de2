//! Waiting for tokens.

use std::{convert::Infallible, time::Duration};

use topup::{Bucket, Decision, Error};
use topup_tests::{SOON, clock};

use super::fixture::{Fixture, patient};

/// Longer than any test: who waits it out has failed.
const LONG: Duration = Duration::from_secs(600);

const CONFIG: &str = r#"
[limit]
slow = { capacity = 1, rate = "1/60s" }
quick = { capacity = 1, rate = "1/300ms" }
busy = { capacity = 1, rate = "50/s" }
shared = { capacity = 20, rate = "100/s" }
leased = { capacity = 20, rate = "100/s", lease = { max = 10, ttl = "1s" } }
gcra = { capacity = 20, rate = "100/s", algorithm = "gcra" }
"#;

#[tokio::test]
async fn a_waiter_gets_a_token_when_it_comes() {
    let fixture = Fixture::set(CONFIG).await;
    let quick = fixture.bucket("quick");
    let sent = clock::now();
    assert!(quick.wait(1, Duration::ZERO).await.unwrap().is_allowed(), "a full bucket is not waited for");
    assert!(quick.wait(1, LONG).await.unwrap().is_allowed());
    assert!(clock::now() - sent >= 300_000);
}

#[tokio::test]
async fn a_waiter_that_cannot_be_in_time_is_denied_at_once() {
    let fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    assert!(slow.take(1).await.unwrap().is_allowed());
    let told = tokio::time::timeout(SOON, slow.wait(1, Duration::from_secs(30))).await;
    let wait = told.expect("at once").unwrap().retry_after().unwrap();
    assert!(wait > Duration::from_secs(30), "{wait:?}");
}

#[tokio::test]
async fn a_wait_for_more_than_the_capacity_is_an_error() {
    let fixture = Fixture::set(CONFIG).await;
    let waited = fixture.bucket("slow").wait(2, LONG).await;
    assert!(matches!(waited, Err(Error::ExceedsCapacity { count: 2, capacity: 1, .. })), "{waited:?}");
}

#[tokio::test]
async fn a_raised_rate_wakes_a_waiter() {
    let mut fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    assert!(slow.take(1).await.unwrap().is_allowed());
    let waiter = tokio::spawn({
        let slow = slow.clone();
        async move { slow.wait(1, LONG).await }
    });
    assert!(!slow.take(1).await.unwrap().is_allowed(), "the waiter has to wait");
    fixture.reload(&CONFIG.replace("1/60s", "10/s")).await;
    let waited = tokio::time::timeout(SOON, waiter).await.expect("it should wake").unwrap();
    assert!(waited.unwrap().is_allowed());
}

#[tokio::test]
async fn a_waiter_of_several_gets_them_beside_a_process_that_takes_all_the_time() {
    let fixture = Fixture::set(CONFIG).await;
    // 20 is all that a bucket holds.
    for (limit, count) in [("shared", 5), ("shared", 20), ("leased", 5), ("gcra", 5)] {
        tokio::select! {
            never = takes_all_the_time(&fixture, limit) => match never {},
            () = waits(fixture.bucket(limit), count) => {}
        }
    }
}

/// The command that takes its tokens ahead of time is then sent once more, beside the pipeline.
#[tokio::test]
async fn a_waiter_of_several_gets_them_though_redis_loses_its_scripts() {
    let fixture = Fixture::set(CONFIG).await;
    tokio::select! {
        never = takes_all_the_time(&fixture, "shared") => match never {},
        never = loses_scripts_all_the_time(&fixture) => match never {},
        () = waits(fixture.bucket("shared"), 5) => {}
    }
}

/// Another process, which asks for each token at the instant at which it comes.
async fn takes_all_the_time(fixture: &Fixture, limit: &str) -> Infallible {
    let bucket = patient(fixture.redis.url()).await.limit(limit);
    loop {
        let denied_for = told(bucket.take(1).await).and_then(|decision| decision.retry_after());
        tokio::time::sleep(denied_for.unwrap_or_default()).await;
    }
}

/// A Redis that loses its scripts every 2 ms.
async fn loses_scripts_all_the_time(fixture: &Fixture) -> Infallible {
    let mut each = tokio::time::interval(Duration::from_millis(2));
    loop {
        each.tick().await;
        fixture.redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
    }
}

/// Waits for `count` tokens, and gets them ten times.
async fn waits(bucket: Bucket, count: u64) {
    let mut got = 0;
    while got < 10 {
        let answer = tokio::time::timeout(SOON, bucket.wait(count, LONG)).await.expect("its turn");
        if let Some(decision) = told(answer) {
            assert!(decision.is_allowed());
            got += 1;
        }
    }
}

/// The decision. `None` if Redis has lost its scripts again and again, for as long as the call went on.
fn told(answer: Result<Decision, Error>) -> Option<Decision> {
    match answer {
        Err(Error::Redis(error)) if error.to_string().contains("NoScript") => None,
        answer => Some(answer.unwrap()),
    }
}

#[tokio::test]
async fn every_waiter_gets_a_token_and_none_comes_early() {
    let fixture = Fixture::set(CONFIG).await;
    let (sent, mut waiters) = (clock::now(), tokio::task::JoinSet::new());
    for _ in 0..40 {
        let busy = fixture.bucket("busy");
        waiters.spawn(async move { busy.wait(1, LONG).await.unwrap().is_allowed() });
    }
    assert!(waiters.join_all().await.into_iter().all(|allowed| allowed));
    assert!(clock::now() - sent >= 39 * 20_000, "39 tokens at 50 a second");
}
