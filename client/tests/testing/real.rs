//! The same calls to a real Redis and to `topup::testing`. Hardly any token comes during the test, so the decisions are
//! the same though the clocks are not.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use topup::{
    Client, Decision,
    testing::{Limit, Topup},
};
use topup_embedded::RedisServer;
use topup_wire::{
    connection::connect_lazily,
    keyspace::ShardKeys,
    limit::{self, Algorithm, Capacity, Rule, Shards, Supply, Terms, Windows},
    namespace::{InNamespace, Namespace},
    scripts::{self, Health},
};

/// The capacity of all limits, and the tokens of a day.
const TOKENS: u64 = 40;
const DAY: Duration = Duration::from_secs(86_400);

fn limits() -> Vec<(Algorithm, Limit)> {
    let rate = "40/d";
    vec![
        (Algorithm::TokenBucket, Limit::token_bucket(TOKENS, rate).keyed()),
        (Algorithm::LazyTokenBucket, Limit::lazy_token_bucket(TOKENS, rate).keyed()),
        (Algorithm::Gcra, Limit::gcra(TOKENS, rate).keyed()),
        (Algorithm::LeakyBucket, Limit::leaky_bucket(TOKENS, rate).keyed()),
        (Algorithm::FixedWindow, Limit::fixed_window(rate).keyed()),
        (Algorithm::SlidingWindow, Limit::sliding_window([rate]).keyed()),
        (Algorithm::SlidingCounter, Limit::sliding_counter(rate).keyed()),
    ]
}

fn name(place: usize) -> String {
    format!("limit-{place}")
}

/// Publishes the limits as a daemon does.
async fn publish(url: &str) {
    let redis = &mut connect_lazily(url).unwrap().in_namespace(Namespace::default());
    for (place, (algorithm, _)) in limits().into_iter().enumerate() {
        let capacity = Capacity::new(TOKENS).unwrap();
        let rules = [Rule::new(TOKENS, DAY).unwrap()];
        let supply = match algorithm.has_windows() {
            true => Supply::Windows(Windows::new(&rules, false).unwrap()),
            false => Supply::Rate("40/d".parse().unwrap()),
        };
        let terms = Terms { capacity, supply };
        let limit = limit::Limit::plain(name(place).parse().unwrap(), algorithm, terms);
        let keys = ShardKeys::new(redis.namespace(), &limit.name, 0);
        scripts::register(redis, &limit.name, Shards::ONE).await.unwrap();
        scripts::publish(redis, &keys, &limit, None, None).await.unwrap();
    }
    scripts::heartbeat(redis, "test", Duration::from_secs(600), &Health::default()).await.unwrap();
    scripts::announce(redis).await.unwrap();
}

/// The part of a decision that must be the same on both. Times differ by the duration of the test.
fn of(decision: &Decision) -> (bool, u64, u64) {
    (decision.is_allowed(), decision.remaining(), decision.capacity())
}

/// Makes a call at random, and says what came of it.
async fn call(dice: &mut StdRng, client: &Client) -> String {
    let count = limits().len();
    let (place, other) = (dice.random_range(0..count), dice.random_range(0..count));
    let bucket = client.limit(name(place)).key(format!("key-{}", dice.random_range(0..3)));
    let tokens = if dice.random_bool(0.8) { 1 } else { dice.random_range(1..=TOKENS) };
    match dice.random_range(0..12) {
        0 => format!("{place} refund {tokens}: {:?}", bucket.refund(tokens).await.unwrap()),
        1 => format!("{place} peek: {:?}", of(&bucket.peek().await.unwrap())),
        2 if dice.random_bool(0.2) => format!("{place} reset: {:?}", bucket.reset().await.unwrap()),
        3 if place != other => {
            let both = [(bucket, tokens), (client.limit(name(other)).key("key-0"), 1)];
            let decided = client.take_all(both).await.unwrap();
            format!("{place} and {other} {tokens}: {}", decided.is_allowed())
        }
        _ => format!("{place} take {tokens}: {:?}", of(&bucket.take(tokens).await.unwrap())),
    }
}

#[tokio::test]
async fn a_real_redis_decides_the_same() {
    let server = RedisServer::start().unwrap();
    publish(server.url()).await;
    let real = Client::builder().deadline(Duration::from_secs(20)).connect(server.url()).await.unwrap();
    let started = limits().into_iter().enumerate();
    let topup = started.fold(Topup::new(), |topup, (place, (_, limit))| topup.limit(name(place), limit));
    let topup = topup.start().unwrap();
    let ours = topup.client();
    let mut dice = StdRng::seed_from_u64(7);
    let mut said = Vec::new();
    for at in 0..600 {
        let seed = dice.random();
        let (mut same, mut again) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(seed));
        let (theirs, ours) = (call(&mut same, &real).await, call(&mut again, &ours).await);
        said.push(format!("{at}: {theirs}, {ours}"));
        assert_eq!(theirs, ours, "{}", said[said.len().saturating_sub(20)..].join("\n"));
    }
}
