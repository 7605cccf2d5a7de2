//! `take --wait`.

use topup_tests::{Cli, Redis};

use crate::daemon::{now, ready};

/// A token every half second.
const LIMITS: &str =
    "[limit.api]\ncapacity = 1\nrate = \"2/s\"\n[limit.slow]\ncapacity = 1\nrate = \"1/h\"\n";

async fn take(redis: &Redis, args: &[&str]) -> Option<i32> {
    Cli::new(&[&["take"], args].concat()).redis(redis).run().await.code
}

#[tokio::test]
async fn it_waits_for_a_token_that_comes_in_time() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let begun = now(&redis).await;
    // Not two without waiting in between.
    for _ in 0..3 {
        assert_eq!(take(&redis, &["api", "--wait", "10s"]).await, Some(0));
    }
    assert!(now(&redis).await - begun >= 1_000_000);
}

#[tokio::test]
async fn it_does_not_wait_in_vain() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    assert_eq!(take(&redis, &["slow", "--wait", "10s"]).await, Some(0));
    let begun = now(&redis).await;
    assert_eq!(take(&redis, &["slow", "--wait", "10s"]).await, Some(1));
    assert!(now(&redis).await - begun < 9_000_000, "the next token is an hour away");
}
