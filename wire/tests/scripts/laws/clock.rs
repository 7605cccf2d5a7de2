//! Law 5: one clock, which may step.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_wire::{
    bucket::Operation,
    limit::{Limit, Period, Supply},
};

use super::{
    oracle::Oracle,
    scene::Scene,
    worker::{Answer, Worker},
};
use crate::{
    generators::{any_size, limit, seeds},
    server::Redis,
};

const RUNS: u64 = 12;
const RATES: [&str; 8] = ["1/s", "3/s", "7/min", "1000/h", "50/s", "997/s", "999999/d", "1/d"];
const HOUR: u64 = 3_600_000_000;

#[tokio::test]
async fn a_quota_filled_by_a_clock_that_was_ahead_is_filled_again_when_it_is_time() {
    let mut redis = Redis::start().await;
    let start = redis.time().await;
    let mut quota = limit(10, "1/d");
    // Buckets taken from while the clock of Redis is ten hours ahead ...
    let ahead = 10 * HOUR;
    quota.terms.supply = Supply::Period(Period { since: start - HOUR, next: start + HOUR });
    let mut scene = Scene::set(redis, quota.clone()).await;
    for member in ["settled", "refilled"] {
        scene.take(member, 10).await;
    }
    scene.step_clock(-(ahead as i64)).await;
    // ... and the daemon publishes the present terms.
    quota.terms.supply = Supply::Period(Period { since: start - HOUR, next: start + HOUR });
    scene.publish(quota, None).await;
    scene.refill_all(10).await;
    assert_eq!((scene.tokens("settled").await, scene.tokens("refilled").await), (0, 0));
    scene.pass(HOUR).await;
    assert_eq!(scene.tokens("settled").await, 10);
    scene.refill(10).await;
    assert_eq!(scene.tokens("refilled").await, 10);
}

/// A limit at random, with a token in a day at least.
fn any_limit(rng: &mut StdRng) -> Limit {
    let rate = RATES.choose(rng).unwrap();
    limit(rng.random_range(1..30), rate)
}

/// A limit at random with its oracle, and its capacity.
async fn any_scene(redis: Redis, rng: &mut StdRng) -> (Scene, Oracle, u64) {
    let limit = any_limit(rng);
    let capacity = limit.terms.capacity.get();
    let scene = Scene::set(redis, limit).await;
    let oracle = Oracle::new(capacity, scene.pace());
    (scene, oracle, capacity)
}

#[tokio::test]
async fn a_step_back_stalls_no_bucket_for_longer_than_a_token_and_gives_nothing() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let (mut scene, mut oracle, capacity) = any_scene(redis, &mut rng).await;
        let (n, p) = scene.pace();
        let mut worker = Worker::default();
        for _ in 0..25 {
            // Mostly a little, as when another Redis takes over; now and then by a year.
            let back = {
                let most = 1 << rng.random_range(1..45);
                any_size(&mut rng, most)
            };
            scene.step_clock(-(back as i64)).await;
            if rng.random_bool(0.3) {
                scene.refill_all(1).await;
            }
            for _ in 0..rng.random_range(0..=capacity) {
                let Answer::Admitted(from, to) = worker.take(&mut scene, "a", 1, 0).await else { break };
                oracle.admitted(from, to, 1);
            }
            let denied = scene.settle("a", Operation::Peek(1)).await;
            assert!(denied.wait <= p.div_ceil(n) + 3, "stalled for {} µs", denied.wait);
            scene.pass(rng.random_range(0..=p / n * 2)).await;
        }
        assert!(oracle.over() <= i128::from(worker.late + scene.slips), "{:?}", scene.limit);
        redis = scene.redis;
    }
}

#[tokio::test]
async fn a_step_ahead_gives_the_capacity_at_most() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let (mut scene, mut oracle, capacity) = any_scene(redis, &mut rng).await;
        let (n, p) = scene.pace();
        let mut workers: [Worker; 2] = Default::default();
        let steps = 30;
        let ahead = rng.random_range(0..steps);
        for step in 0..steps {
            if step == ahead {
                let most = 1 << rng.random_range(1..45);
                scene.step_clock(any_size(&mut rng, most) as i64).await;
            }
            for _ in 0..rng.random_range(0..=capacity) {
                let worker = &mut workers[rng.random_range(0..2)];
                let Answer::Admitted(from, to) = worker.take(&mut scene, "a", 1, 0).await else { break };
                oracle.admitted(from, to, 1);
            }
            scene.pass(rng.random_range(0..=p / n * capacity / 2)).await;
        }
        let late = workers.iter().map(|worker| worker.late).max().unwrap_or(0);
        let over = oracle.tokens(oracle.over() - i128::from(late + scene.slips));
        assert!(over <= capacity as f64, "{over} tokens over: {:?}", scene.limit);
        redis = scene.redis;
    }
}
