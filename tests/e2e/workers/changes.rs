//! A change of the configuration while workers are at it: law 6.

use std::time::Duration;

use topup_tests::{Attempt, Redis, SOON, clock, eventually, none_left};

use topup_wire::{keyspace::ShardKeys, limit::Algorithm, namespace::Namespace};

use super::{
    fixture::{Fixture, Tasks, now, patient},
    oracle::{Oracle, no_errors},
};

/// µs between the announcement of a change and the change.
const FREEZE: u64 = 750_000;

fn api(capacity: u32, rate: &str) -> String {
    format!("[limit.api]\ncapacity = {capacity}\nrate = \"{rate}\"\n")
}

/// The instant from which the effective terms apply, by the clock of Redis.
async fn since(redis: &Redis) -> u64 {
    redis.ask(&["HGET", "topup:{api:0}:limit", "since"]).await
}

/// The instant from which the effective terms apply, by this machine's clock. Early by a roundtrip at most, never late.
async fn in_force_since(redis: &Redis) -> u64 {
    let since = since(redis).await;
    let before = clock::now();
    before - (now(redis).await - since)
}

#[tokio::test]
async fn workers_get_the_new_rate_at_once_and_every_token_once() {
    let mut fixture = Fixture::set(&api(10, "50/s")).await;
    let workers = fixture.workers(4, "api", Duration::from_millis(5)).await;
    workers.log.allowed(60).await;
    let asked = now(&fixture.redis).await;
    fixture.reload(&api(10, "200/s")).await;
    let rate = async || fixture.redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "rate"]).await;
    eventually(SOON, async || rate().await == "200/s").await;
    let changed = in_force_since(&fixture.redis).await;
    // Workers follow it within half a second. By the takes' own instants: on a busy machine, workers tell them late.
    let from = changed + 500_000;
    eventually(SOON, async || workers.log.sent_since(from) >= 800).await;
    let attempts = workers.stop().await;
    no_errors(&attempts);
    let late = since(&fixture.redis).await - asked;
    assert!((FREEZE..10 * FREEZE).contains(&late), "in force {late} µs after the signal");

    let oracle = Oracle::new(10, 50.0).then(changed, 200.0);
    let judgement = oracle.judge(&attempts).never_over().within(0.01);
    let after: Vec<_> = attempts.iter().filter(|attempt| attempt.sent >= from).cloned().collect();
    let allowed = after.iter().filter(|attempt| attempt.is_allowed()).count();
    let ideal = oracle.ideal(0.0, from, &after);
    println!("{judgement:?}; in force after {late} µs; then {allowed} of {ideal}");
    assert!(allowed.abs_diff(ideal) * 100 <= ideal * 5, "{allowed} at the new rate, ideal {ideal}");
}

#[tokio::test]
async fn a_capacity_may_go_down_and_up_under_load() {
    let mut fixture = Fixture::set(&api(100, "1/60s")).await;
    let bucket = fixture.bucket("api");
    assert_eq!(bucket.take(10).await.unwrap().remaining(), 90);
    fixture.reload(&api(40, "1/60s")).await;
    eventually(SOON, async || bucket.peek().await.unwrap().capacity() == 40).await;
    assert_eq!(bucket.peek().await.unwrap().remaining(), 40, "clamped to the lower capacity");
    assert_eq!(bucket.take(15).await.unwrap().remaining(), 25);
    fixture.reload(&api(200, "1/60s")).await;
    eventually(SOON, async || bucket.peek().await.unwrap().capacity() == 200).await;
    assert_eq!(
        bucket.peek().await.unwrap().remaining(),
        25,
        "tokens are kept, and a higher capacity brings none"
    );
}

#[tokio::test]
async fn no_token_appears_or_vanishes_while_the_capacity_swings() {
    let mut fixture = Fixture::set(&api(30, "100/s")).await;
    let tasks = Tasks::start((0..4).map(|_| fixture.bucket("api")), Duration::from_millis(8));
    // An overloaded bucket is nearly empty, so that from here on its capacity does not matter.
    eventually(SOON, async || fixture.bucket("api").peek().await.unwrap().remaining() == 0).await;
    let drained = clock::now();
    for capacity in [10, 60, 20, 30] {
        fixture.reload(&api(capacity, "100/s")).await;
        // Less than the freeze of a change: the next one comes in the middle of it.
        tasks.log.allowed(60).await;
    }
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    let after: Vec<Attempt> = attempts.into_iter().filter(|attempt| attempt.sent >= drained).collect();
    let allowed = after.iter().filter(|attempt| attempt.is_allowed()).count();
    // The same, unless the machine stalls for so long that the smallest bucket fills.
    let [least, most] = [10, 60].map(|capacity| Oracle::new(capacity, 100.0).ideal(0.0, drained, &after));
    assert!(
        (least * 98 / 100 - 1..=most * 102 / 100 + 1).contains(&allowed),
        "{allowed}, not {least} to {most}"
    );
}

#[tokio::test]
async fn an_invalid_edit_changes_nothing() {
    let mut fixture = Fixture::set(&api(10, "100/s")).await;
    let generation: u64 = fixture.redis.ask(&["GET", "topup:{topup}:generation"]).await;
    let tasks = Tasks::start((0..4).map(|_| fixture.bucket("api")), Duration::from_millis(8));
    fixture.daemon.reload(&api(0, "9999/s"));
    fixture.daemon.wait_for_line("refused as a whole", SOON).await;
    tasks.log.allowed(120).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    Oracle::new(10, 100.0).judge(&attempts).never_over().within(0.01);
    assert_eq!(fixture.redis.ask::<u64>(&["GET", "topup:{topup}:generation"]).await, generation);
}

/// The settings of a limit of 10 tokens at once under `algorithm`, and about 100 a second.
fn settings(algorithm: Algorithm) -> String {
    let steady = "capacity = 10\nrate = \"100/s\"\n";
    let terms = if algorithm.has_windows() { "limit = 10\nwindow = \"100ms\"\n" } else { steady };
    format!("algorithm = \"{algorithm}\"\n{terms}")
}

/// Any two algorithms, one after the other and the other way round.
fn walk() -> Vec<Algorithm> {
    let mut walk = Vec::new();
    for (i, one) in Algorithm::ALL.into_iter().enumerate() {
        walk.extend(Algorithm::ALL[i + 1..].iter().flat_map(|other| [one, *other, one]));
    }
    walk.dedup();
    walk
}

/// Waits until `shard` of `limit` decides as `algorithm` does.
async fn decides(redis: &Redis, shard: &str, algorithm: Algorithm) {
    eventually(SOON, async || {
        let published: String = redis.ask(&["HGET", &format!("topup:{{{shard}}}:limit"), "algorithm"]).await;
        published == algorithm.as_str()
    })
    .await;
}

#[tokio::test]
async fn a_change_of_algorithm_reaches_workers_without_an_error() {
    let config = |algorithm| format!("[limit.api]\n{}", settings(algorithm));
    let walk = walk();
    let mut fixture = Fixture::set(&config(walk[0])).await;
    // Workers that know nothing of each other.
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(patient(fixture.redis.url()).await.limit("api"));
    }
    let tasks = Tasks::start(workers, Duration::from_millis(2));
    for algorithm in &walk[1..] {
        fixture.reload(&config(*algorithm)).await;
        decides(&fixture.redis, "api:0", *algorithm).await;
        tasks.log.answered(40).await;
    }
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    // Each algorithm begins with full buckets: so many times the capacity.
    let judgement = Oracle::new(10 * walk.len() as u32, 100.0).judge(&attempts).never_over();
    println!("{} changes, {} takes, 0 errors: {judgement:?}", walk.len() - 1, attempts.len());
}

#[tokio::test]
async fn a_change_of_algorithm_reaches_keys_of_every_shard_without_an_error() {
    let config = |algorithm| format!("[limit.user]\nkeyed = true\n{}", settings(algorithm));
    let walk = walk();
    let mut fixture = Fixture::set(&config(walk[0])).await;
    for key in 0..4_000 {
        assert!(fixture.bucket("user").key(format!("idle {key}")).take(10).await.unwrap().is_allowed());
    }
    let keys = (0..32).map(|key| fixture.bucket("user").key(key.to_string()));
    let tasks = Tasks::start(keys, Duration::from_millis(5));
    for pair in walk.windows(2) {
        let [from, to] = pair else { unreachable!("windows of two") };
        fixture.reload(&config(*to)).await;
        decides(&fixture.redis, "user:7", *to).await;
        let old = ShardKeys::new(Namespace::default(), &"user".parse().unwrap(), 0)
            .state(*from, "")
            .replace(":0}", ":*}")
            + "*";
        none_left(SOON, async || fixture.redis.ask(&["KEYS", &old]).await).await;
    }
    no_errors(&tasks.stop().await);
}
