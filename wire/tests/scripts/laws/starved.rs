//! Law 2: a bucket asked for at or above its rate gives its rate.

use rand::{RngExt, seq::IndexedRandom};

use super::{
    oracle::Oracle,
    scene::Scene,
    worker::{Answer, Worker},
};
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RUNS: u64 = 15;
const STEPS: usize = 100;
const RATES: [&str; 9] = ["1/s", "3/s", "7/min", "1000/h", "50/s", "97/s", "999999/d", "1/366d", "7919/3d"];

#[tokio::test]
async fn a_bucket_asked_continuously_gives_its_rate_in_every_window() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let capacity = rng.random_range(20..60);
        let mut scene = Scene::set(redis, limit(capacity, RATES.choose(&mut rng).unwrap())).await;
        let mut oracle = Oracle::new(capacity, scene.pace());
        let mut workers: [Worker; 3] = Default::default();
        for _ in 0..STEPS {
            let worker = &mut workers[rng.random_range(0..3)];
            let until = loop {
                match worker.take(&mut scene, "a", 1, 0).await {
                    Answer::Admitted(from, to) => oracle.admitted(from, to, 1),
                    Answer::Denied(at, until) => {
                        oracle.denied(at);
                        break until;
                    }
                    Answer::Remembered(until) => break until,
                }
            };
            // Sooner than it was told to, as told, or a little later.
            let now = scene.now().await;
            let wait = until.saturating_sub(now);
            scene.pass([wait / 3, wait, wait, wait + wait / 2][rng.random_range(0..4)]).await;
            if rng.random_bool(0.2) {
                scene.refill(1).await;
            }
        }
        let under = oracle.under();
        let tokens = oracle.tokens(under);
        assert!(
            under <= i128::from(scene.slips),
            "{under} µs ({tokens} tokens) under: {:?}",
            scene.limit.terms
        );
        redis = scene.redis;
    }
}

#[tokio::test]
async fn a_denial_is_exact() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        // At a token a year, no bucket is to be older than the clock.
        let capacity = rng.random_range(1..30);
        let mut scene = Scene::set(redis, limit(capacity, RATES.choose(&mut rng).unwrap())).await;
        scene.take("a", capacity).await;
        for _ in 0..20 {
            let count = rng.random_range(1..=capacity);
            let early = scene.settle("a", topup_wire::bucket::Operation::Take(count)).await;
            if early.wait == 0 {
                continue;
            }
            let (n, p) = scene.pace();
            let token = p / n;
            // Too far from the promised instant for the real time of a question to matter.
            if early.wait > 2 * token.max(1_000_000) {
                let now = scene.now().await;
                scene.pass(early.now + early.wait - now - token / 2).await;
                let denied = scene.settle("a", topup_wire::bucket::Operation::Peek(count)).await;
                assert!(denied.wait > 0, "given before its time");
                assert!((denied.now + denied.wait).abs_diff(early.now + early.wait) <= scene.slips);
            }
            let now = scene.now().await;
            scene.pass((early.now + early.wait + scene.slips).saturating_sub(now)).await;
            scene.take("a", count).await;
        }
        redis = scene.redis;
    }
}
