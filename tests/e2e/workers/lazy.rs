//! `lazy-token-bucket`: the same contract from the same client, and no daemon needed.

use std::time::Duration;

use topup::{Decision, Error};
use topup_tests::{SOON, eventually};

use super::{
    contract::assert_no_time_is_lost,
    fixture::Fixture,
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = r#"
[limit]
api = { algorithm = "lazy-token-bucket", capacity = 10, rate = "100/s" }
slow = { algorithm = "lazy-token-bucket", capacity = 10, rate = "1/60s" }
steady = { algorithm = "lazy-token-bucket", capacity = 20, rate = "10/s" }
user = { algorithm = "lazy-token-bucket", keyed = true, capacity = 5, rate = "10/s" }
"#;

/// A daemon has published these limits and is gone.
async fn orphaned() -> Fixture {
    let mut fixture = Fixture::set(CONFIG).await;
    fixture.kill_daemon().await;
    fixture
}

#[tokio::test]
async fn the_contract_is_the_same() {
    let fixture = orphaned().await;
    let slow = fixture.bucket("slow");
    assert_eq!(slow.peek().await.unwrap(), Decision::Allowed { remaining: 10, capacity: 10 });
    assert_eq!(fixture.bucket_keys().await, [""; 0]);
    for remaining in (1..10).rev() {
        assert_eq!(slow.take(1).await.unwrap(), Decision::Allowed { remaining, capacity: 10 });
    }
    let denied = slow.take(3).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.remaining()), (false, 1));
    let wait = denied.retry_after().unwrap().as_secs();
    assert!((100..=120).contains(&wait), "two more tokens: {wait} s");
    assert!(slow.take(1).await.unwrap().is_allowed(), "one is there");
    assert_eq!(slow.refund(4).await.unwrap(), 4);
    assert_eq!(slow.peek().await.unwrap().remaining(), 4);
    assert_eq!(slow.refund(40).await.unwrap(), 10);
    assert!(slow.take(10).await.unwrap().is_allowed());
    assert!(!slow.take(1).await.unwrap().is_allowed());
    slow.reset().await.unwrap();
    assert_eq!(fixture.bucket_keys().await, [""; 0], "a full bucket has no key");
    assert!(matches!(slow.take(11).await, Err(Error::ExceedsCapacity { capacity: 10, .. })));
    assert!(matches!(fixture.bucket("user").take(1).await, Err(Error::KeyRequired { .. })));
    assert_eq!(fixture.bucket_keys().await, [""; 0]);
}

#[tokio::test]
async fn takes_are_exact_with_no_daemon() {
    let fixture = orphaned().await;
    let workers = fixture.workers(4, "api", Duration::from_millis(8)).await;
    workers.log.allowed(200).await;
    let attempts = workers.stop().await;
    no_errors(&attempts);
    Oracle::new(10, 100.0).judge(&attempts).never_over().within(0.01);
}

#[tokio::test]
async fn the_rest_of_a_token_is_kept() {
    let fixture = orphaned().await;
    assert_no_time_is_lost(&fixture.bucket("steady")).await;
}

#[tokio::test]
async fn a_key_lives_until_its_bucket_is_full() {
    let fixture = orphaned().await;
    let (slow, user) = (fixture.bucket("slow"), fixture.bucket("user").key("alice"));
    assert!(slow.take(3).await.unwrap().is_allowed());
    let keys = fixture.bucket_keys().await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    let millis: i64 = fixture.redis.ask(&["PTTL", &keys[0]]).await;
    assert!((160_000..=180_001).contains(&millis), "three tokens' time: {millis} ms");
    slow.reset().await.unwrap();
    assert!(user.take(5).await.unwrap().is_allowed());
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
    assert_eq!(user.take(1).await.unwrap().remaining(), 4, "no key is a full bucket");
}
