//! Law 1 of a burst on a full bucket, whichever commands it is made of: all of the capacity, and none more.

use rand::{RngExt, seq::IndexedRandom};
use topup_wire::{
    bucket::{Operation, Pace},
    limit::{Algorithm, MAX_TOKENS},
    reply::Verdict,
    scripts,
};

use super::scene::Scene;
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RATES: [&str; 6] = ["1/366d", "1/d", "3/s", "7/min", "1000/s", "1000000/s"];

/// Tokens that come within so many µs, rounded up.
fn come(micros: u64, (n, p): (u64, u64)) -> u64 {
    (u128::from(micros) * u128::from(n)).div_ceil(u128::from(p)) as u64
}

#[tokio::test]
async fn a_burst_on_a_full_bucket_is_allowed_to_the_last_token() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(60) {
        let capacity = *[1, 2, 3, 4, 10, 100, 1_000].choose(&mut rng).unwrap();
        let mut scene = Scene::set(redis, limit(capacity, RATES.choose(&mut rng).unwrap())).await;
        let (n, p) = scene.pace();
        let mut given = 0;
        let begun = scene.now().await;
        if rng.random_bool(0.7) {
            let count = rng.random_range(1..=capacity.min(3));
            assert!(scene.first_take("a", count).await.1);
            // Unless it is full again by then.
            assert!(p < 1_000_000 || !scene.first_take("a", 1).await.1);
            given = count;
        }
        let (keys, may_count) = (scene.keys.clone(), rng.random_bool(0.5));
        let mut counting = false;
        while given < capacity {
            let conn = &mut scene.redis.connection;
            if counting && rng.random_bool(0.7) {
                assert!(scripts::decrement(conn, &keys.counter("a"), 1).await.unwrap() >= 0);
            } else {
                let take = Operation::Take(1);
                let settled =
                    scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", take, may_count, None)
                        .await
                        .unwrap();
                assert_eq!(settled.verdict, Verdict::Allowed, "{given} of {capacity} at {n}/{p} µs");
                counting = settled.counting;
            }
            given += 1;
        }
        let left = scene.tokens("a").await;
        let most = come(scene.now().await - begun, (n, p));
        assert!(left <= most, "{left} are left, not {most}: {capacity} at {n}/{p} µs");
        redis = scene.redis;
    }
}

#[tokio::test]
async fn a_first_take_takes_what_it_says_from_any_bucket() {
    let mut redis = Redis::start().await;
    for (rate, capacity, count) in [
        ("1/366d", 3, 2),
        ("3/s", 10, 10),
        ("1000000/s", 1 << 20, 1 << 20),
        ("1000/s", MAX_TOKENS, 1 << 32),
        ("1/min", MAX_TOKENS, 1),
    ] {
        let mut scene = Scene::set(redis, limit(capacity, rate)).await;
        let (n, p) = scene.pace();
        assert!(scripts::can_take_first(capacity, Pace { n, p }, count), "{rate}");
        let (from, taken, _) = scene.first_take("a", count).await;
        assert!(taken);
        let settled = scene.settle("a", Operation::Peek(1)).await;
        let missing = capacity - settled.tokens;
        let passed = come(settled.now - from, (n, p));
        assert!((count.saturating_sub(passed)..=count).contains(&missing), "{missing} of {count} at {rate}");
        // Full a ms late at most, and no µs early.
        let full = settled.now + settled.headroom;
        let at_rate = (u128::from(count) * u128::from(p)).div_ceil(u128::from(n)) as u64;
        assert!(full >= from + at_rate - 1 && full <= settled.now + at_rate + 3, "{rate}");
        // The key is gone, too.
        let left: u64 = scene.redis.ask(&["PTTL", &scene.keys.counter("a")]).await;
        let now = scene.now().await;
        assert!(now / 1_000 + left >= full / 1_000, "{rate}");
        redis = scene.redis;
    }
}
