//! Law 3: time is credited once, however many daemons there are and wherever they crash.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_wire::{
    bucket::Operation,
    scripts::{self, Look},
};

use super::scene::Scene;
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RUNS: u64 = 15;
const STEPS: usize = 150;
const BUCKETS: usize = 20;
/// More than any bucket gets here, so that none is ever full.
const CAPACITY: u64 = 1 << 50;
const RATES: [&str; 8] = ["1/s", "3/s", "7/min", "50/s", "997/s", "999999/d", "1000003/s", "1001/ms"];

/// Tokens that a bucket has had.
struct Account {
    since: u64,
    tokens: u64,
    taken: u64,
}

#[tokio::test]
async fn time_is_credited_once() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let mut scene = Scene::set(redis, limit(CAPACITY, RATES.choose(&mut rng).unwrap())).await;
        let members: Vec<String> = (0..BUCKETS).map(|i| format!("user-{i}")).collect();
        let mut accounts = Vec::new();
        for member in &members {
            let tokens = rng.random_range(0..100);
            let settled = scene.settle(member, Operation::Take(CAPACITY - tokens)).await;
            accounts.push(Account { since: settled.now, tokens, taken: 0 });
        }
        for _ in 0..STEPS {
            match rng.random_range(0..10) {
                0..6 => slice(&mut scene, &mut rng).await,
                6..8 => scene.pass_about(rng.random_range(0..3_000_000)).await,
                _ => {
                    let i = rng.random_range(0..BUCKETS);
                    let settled = scene.settle(&members[i], Operation::Take(1)).await;
                    accounts[i].taken += u64::from(settled.wait == 0);
                }
            }
        }
        for (member, account) in members.iter().zip(&accounts) {
            check(&mut scene, member, account).await;
        }
        redis = scene.redis;
    }
}

/// A slice of some daemon's pass. Whether its reply comes makes no difference.
async fn slice(scene: &mut Scene, rng: &mut StdRng) {
    let look = if rng.random_bool(0.3) { Look::All } else { Look::Due };
    let most = rng.random_range(1..=BUCKETS);
    scripts::refill(&mut scene.redis.connection, &scene.keys, most, look).await.unwrap();
}

/// A bucket has the tokens that fell into it, less the taken ones, to the token.
async fn check(scene: &mut Scene, member: &str, account: &Account) {
    let settled = scene.settle(member, Operation::Peek(1)).await;
    let (n, p) = scene.pace();
    let (n, p) = (u128::from(n), u128::from(p));
    let had = u128::from(settled.tokens + account.taken - account.tokens);
    let elapsed = u128::from(settled.now - account.since);
    let slips = u128::from(scene.slips);
    assert!(had * p <= n * (elapsed + slips), "{had} tokens in {elapsed} µs are too many");
    // Counted from up to 3 µs after the take: see time.lua.
    assert!(
        (had + 1) * p > n * elapsed.saturating_sub(3 + slips),
        "{had} tokens in {elapsed} µs are too few"
    );
}
