//! Refilling as such: what a bucket gets when nobody asks.

use topup_tests::{Redis, SOON, eventually, stalls::void};
use topup_wire::reply::Verdict;

use super::{
    bucket::{Bucket, Stored},
    looked, now, ready,
};

/// 20 tokens of 10 ms each.
const LIMITS: &str = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 20\nrate = \"100/s\"\n\
                      [limit.user]\nkeyed = true\ncapacity = 20\nrate = \"100/s\"\n\
                      [limit.large]\ncapacity = 2000\nrate = \"100/s\"\n";
const TOKEN: u64 = 10_000;
const FULL: u64 = 20 * TOKEN;

/// The instant at which its key was gone: two looks of the daemon after it was full. On a busy machine it is later.
async fn gone(redis: &Redis, bucket: &Bucket) -> u64 {
    eventually(SOON, async || redis.ask::<u64>(&["EXISTS", &bucket.counter(), &bucket.keys.due]).await == 0)
        .await;
    now(redis).await
}

#[tokio::test]
async fn a_drained_bucket_is_full_in_its_time_and_then_has_no_key() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let keys = redis.dbsize().await;
    for bucket in [Bucket::of(&redis, "api"), Bucket::keyed(&redis, "user", "alice", 8)] {
        let drained = bucket.drain().await.now;
        let counting = redis.dbsize().await;
        if now(&redis).await < drained + FULL {
            assert_eq!(counting, keys + 2, "a counter and an index");
        } else {
            void("the keys of a counter: it was full before the machine looked at it");
        }
        let took = gone(&redis, &bucket).await - drained;
        assert!(took >= FULL, "{took} µs");
        assert_eq!(bucket.peek().await.tokens, 20);
    }
    assert_eq!(redis.dbsize().await, keys);
}

#[tokio::test]
async fn tokens_of_bare_decrements_come_back() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let first = bucket.take(3).await.now;
    while bucket.decrement(1).await >= 0 {}
    let took = gone(&redis, &bucket).await - first;
    assert!(took >= FULL, "{took} µs");
}

#[tokio::test]
async fn debt_neither_creates_nor_eats_a_token() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let bucket = Bucket::of(&redis, "large");
    let drained = bucket.drain().await.now;
    let before = bucket.stored().await.unwrap();
    assert!(bucket.decrement(1_000_000).await < 0);
    let Stored { tokens, score } = eventually(SOON, async || {
        let stored = bucket.stored().await.unwrap();
        if stored.tokens > 0 && stored.score > before.score { Ok(stored) } else { Err(stored) }
    })
    .await;
    assert!(tokens.cast_unsigned() <= (score - drained) / TOKEN, "{tokens}");
    assert!(
        tokens.cast_unsigned() + 1 >= (score - before.score) / TOKEN - before.tokens.cast_unsigned(),
        "{tokens}"
    );
    gains_its_rate(&redis, &bucket).await;
}

#[tokio::test]
async fn a_counter_evicted_while_in_use_counts_as_empty() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let bucket = Bucket::of(&redis, "large");
    // Nearly full: counted as full, it would be over.
    bucket.take(1_000).await;
    redis.ask::<u64>(&["DEL", &bucket.counter()]).await;
    let seen = bucket.peek().await;
    assert!(seen.tokens < 1_000, "{seen:?}");
    assert_eq!(bucket.take(1_900).await.verdict, Verdict::Denied);
    gains_its_rate(&redis, &bucket).await;
}

/// From now on it holds what it holds and what its time is worth.
async fn gains_its_rate(redis: &Redis, bucket: &Bucket) {
    looked(redis, 3).await;
    let one = bucket.stored().await.unwrap();
    looked(redis, 9).await;
    let other = bucket.stored().await.unwrap();
    assert_eq!((other.tokens - one.tokens).cast_unsigned(), (other.score - one.score) / TOKEN);
}
