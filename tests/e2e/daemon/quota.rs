//! A calendar quota is filled at its instant, once, and at no other.

use topup_tests::{Redis, SOON, eventually, stalls::void};
use topup_wire::{bucket::Operation, reply::Verdict};

use super::{
    bucket::Bucket,
    looked, now, ready,
    schedule::{boundary_in, cron},
};

const SECOND: u64 = 1_000_000;
const CAPACITY: u64 = 7;

fn config(at: u64) -> String {
    filled_at(&cron(at))
}

fn filled_at(cron: &str) -> String {
    format!(
        "[daemon]\ntick = \"20ms\"\n[limit.export]\nkeyed = true\ncapacity = {CAPACITY}\nrefill = {{ cron = \"{cron}\" }}\n"
    )
}

/// Takes one by one until denied: how many there were.
async fn take_all(bucket: &Bucket) -> u64 {
    let mut taken = 0;
    while bucket.take(1).await.verdict == Verdict::Allowed {
        taken += 1;
    }
    taken
}

#[tokio::test]
async fn two_daemons_fill_it_once_at_its_instant() {
    let redis = Redis::start().await;
    let instant = boundary_in(&redis, 3).await;
    let config = config(instant);
    let (_one, _other) = (ready(&config, &redis).await, ready(&config, &redis).await);
    let bucket = Bucket::keyed(&redis, "export", "alice", 8);
    let emptied = take_all(&bucket).await;
    let denied = bucket.take(1).await;
    if denied.now >= instant {
        return void("a fill at its instant: the machine is too busy to empty the bucket before");
    }
    assert_eq!(emptied, CAPACITY);
    assert_eq!(denied.now + denied.wait, instant, "the denial says when");

    let mut taken = 0;
    while now(&redis).await <= instant {
        taken += take_all(&bucket).await;
    }
    eventually(SOON, async || {
        taken += take_all(&bucket).await;
        taken > 0
    })
    .await;
    for _ in 0..4 {
        looked(&redis, 5).await;
        taken += take_all(&bucket).await;
    }
    assert_eq!(taken, CAPACITY);
    let denied = bucket.take(1).await;
    assert_eq!(denied.now + denied.wait, instant + 86_400 * SECOND, "tomorrow at the same time");
}

#[tokio::test]
async fn a_quota_is_filled_without_a_take() {
    let redis = Redis::start().await;
    let _daemon = ready(&filled_at("*/3 * * * * *"), &redis).await;
    let keys = redis.dbsize().await;
    let bucket = Bucket::keyed(&redis, "export", "alice", 8);
    let denied = eventually(SOON, async || {
        let taken = bucket.take(1).await;
        (taken.verdict == Verdict::Denied).then_some(taken)
    })
    .await;
    let instant = denied.now + denied.wait;
    assert_eq!(instant % (3 * SECOND), 0, "the denial says when");
    looked(&redis, 20).await;
    let stored = bucket.stored().await;
    assert!(now(&redis).await >= instant || stored.is_some_and(|stored| stored.tokens == 0), "{stored:?}");
    eventually(SOON, async || redis.dbsize().await == keys).await;
    assert!(now(&redis).await >= instant);
}

#[tokio::test]
async fn a_partly_used_one_gets_no_token_before_its_instant() {
    let redis = Redis::start().await;
    let far = boundary_in(&redis, 3_600).await;
    let _daemon = ready(&config(far), &redis).await;
    let bucket = Bucket::keyed(&redis, "export", "alice", 8);
    bucket.take(3).await;
    looked(&redis, 10).await;
    assert_eq!(bucket.settle(Operation::Peek(1)).await.tokens, CAPACITY - 3);
}
