//! Data loss of the server in the middle of traffic: a flush, lost scripts, evicted keys.

use std::time::Duration;

use topup_tests::{Answer, Attempt, SOON, Stalls, clock, eventually};

use super::{
    fixture::{Fixture, Tasks},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = "[limit.api]\ncapacity = 10\nrate = \"100/s\"\n";
const ROOMY: &str = "[limit.api]\ncapacity = 1000\nrate = \"100/s\"\n";

fn busy(fixture: &Fixture) -> Tasks {
    Tasks::start((0..4).map(|_| fixture.bucket("api")), Duration::from_millis(8))
}

#[tokio::test]
async fn after_a_flush_all_buckets_are_full_and_the_laws_hold_from_there() {
    let fixture = Fixture::set(CONFIG).await;
    let tasks = busy(&fixture);
    tasks.log.allowed(50).await;
    fixture.redis.ask::<()>(&["FLUSHALL"]).await;
    let flushed = clock::now();
    let _ = eventually(SOON, async || fixture.bucket("api").peek().await).await;
    let published = clock::now();
    tasks.log.allowed(120).await;
    let attempts = tasks.stop().await;

    let (before, after): (Vec<_>, Vec<_>) = attempts.into_iter().partition(|attempt| attempt.sent < flushed);
    Oracle::new(10, 100.0).judge(&before[..before.len() - 4]).never_over();
    let forgotten = |attempt: &&Attempt| {
        // The last of these: the registry is there again, and the record is about to be.
        let words = ["limit \"api\" is not known", "no limit", "the record of limit \"api\" is lost"];
        attempt.error().is_some_and(|error| words.iter().any(|word| error.contains(word)))
    };
    let (errors, told): (Vec<_>, Vec<_>) = after.iter().partition(|attempt| attempt.error().is_some());
    assert!(errors.iter().all(forgotten), "{errors:?}");
    let late = errors.iter().filter(|error| error.sent > published).count();
    assert_eq!(late, 0, "once it is published again, all is well: {errors:?}");
    let told: Vec<Attempt> = told.into_iter().cloned().collect();
    // The flush cuts off takes that had their tokens already.
    Oracle::new(10, 100.0).judge(&told).never_over().within(0.05);
}

#[tokio::test]
async fn scripts_that_are_gone_are_sent_again() {
    let (fixture, stalls) = (Fixture::set(CONFIG).await, Stalls::watch());
    let tasks = busy(&fixture);
    for _ in 0..10 {
        tasks.log.allowed(8).await;
        fixture.redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
    }
    let attempts = tasks.stop().await;
    // Unless the next flush comes between sending the script and calling it.
    let (errors, attempts): (Vec<_>, Vec<_>) =
        attempts.into_iter().partition(|attempt| attempt.error().is_some());
    assert!(errors.is_empty() || stalls.worst() > 20_000, "{errors:?}");
    assert!(errors.iter().all(|error| matches!(error.answer, Answer::Transient(_))), "{errors:?}");
    Oracle::new(10, 100.0).judge(&attempts).never_over().within(0.02);
}

#[tokio::test]
async fn an_evicted_counter_is_an_empty_bucket_not_a_full_one() {
    let fixture = Fixture::set(ROOMY).await;
    let bucket = fixture.bucket("api");
    // One that counts: what is evicted of a bucket at rest makes that full.
    assert!(bucket.take(500).await.unwrap().is_allowed());
    assert!(bucket.take(300).await.unwrap().is_allowed());
    let counters: Vec<String> = fixture.redis.ask(&["KEYS", "*}:b:*"]).await;
    assert_eq!(fixture.redis.ask::<u64>(&["DEL", &counters[0]]).await, 1);
    let told = bucket.take(1).await.unwrap();
    assert!(told.remaining() < 900, "{told:?}");
}

#[tokio::test]
async fn an_eviction_makes_a_bucket_full_and_no_fuller() {
    let fixture = Fixture::set(CONFIG).await;
    let tasks = busy(&fixture);
    for _ in 0..20 {
        tasks.log.allowed(4).await;
        fixture.redis.ask::<u64>(&["DEL", "topup:{api:0}:b:"]).await;
    }
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    // Each eviction costs a capacity more, once.
    Oracle::new(10 * 21, 100.0).judge(&attempts).never_over();
}

#[tokio::test]
async fn a_lost_due_index_makes_its_buckets_full_and_no_fuller() {
    let fixture = Fixture::set(CONFIG).await;
    let tasks = busy(&fixture);
    tasks.log.allowed(40).await;
    fixture.redis.ask::<u64>(&["DEL", "topup:{api:0}:due"]).await;
    tasks.log.allowed(40).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    // An evicted index costs one capacity more, once.
    Oracle::new(20, 100.0).judge(&attempts).never_over();
}
