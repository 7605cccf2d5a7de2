//! The cost of denials, in scripts.

use std::time::Duration;

use topup::testing::{Limit, Topup};

use super::counted::Scripts;

const SECOND: Duration = Duration::from_secs(1);
const CAPACITY: u64 = 8;

/// Takes all tokens of a bucket one by one, and then as often within the time of one token. Returns the scripts of the
/// denied takes, and those of one allowed take after that time.
async fn scripts_of_denials(limit: Limit) -> [u64; 2] {
    let topup = Topup::new().limit("user", limit).start().unwrap();
    let scripts = Scripts::default();
    let bucket = scripts.client(&topup).limit("user");
    topup.advance(SECOND / 2).await;
    let take = async || {
        let (before, bucket) = (scripts.count(), bucket.clone());
        let taken = tokio::spawn(async move { bucket.take(1).await.unwrap().is_allowed() });
        topup.advance(SECOND / 1_000).await;
        (taken.await.unwrap(), scripts.count() - before)
    };
    for turn in 0..CAPACITY {
        assert!(take().await.0, "token {turn}");
    }
    let mut of_denials = 0;
    for turn in 0..CAPACITY {
        let (allowed, scripts) = take().await;
        assert!(!allowed, "take {turn} of an empty bucket");
        of_denials += scripts;
    }
    topup.advance(SECOND / 10).await;
    let (allowed, of_one) = take().await;
    assert!(allowed, "a token has come");
    [of_denials, of_one]
}

#[tokio::test]
async fn who_empties_a_bucket_knows_until_when_takes_are_denied() {
    for (algorithm, limit) in [
        ("token-bucket", Limit::token_bucket(CAPACITY, "10/s")),
        ("gcra", Limit::gcra(CAPACITY, "10/s")),
        ("lazy-token-bucket", Limit::lazy_token_bucket(CAPACITY, "10/s")),
        ("leaky-bucket", Limit::leaky_bucket(CAPACITY, "10/s")),
    ] {
        let [of_denials, of_one] = scripts_of_denials(limit).await;
        assert_eq!(of_denials, 0, "{algorithm}");
        assert_eq!(of_one, u64::from(algorithm != "token-bucket"), "{algorithm}: the scripts are counted");
    }
}
