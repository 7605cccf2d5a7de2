//! The cost of as many limits as code may define.

use std::time::Duration;

use tokio::task::JoinSet;
use topup::{Defined, Error, Terms};
use topup_tests::{Cli, Redis, SOON, eventually};

use super::fixture::{Fixture, now, patient};

const API: &str = "[limit.api]\ncapacity = 10\nrate = \"100/s\"\n";

/// Redis's own CPU time so far, in µs.
async fn cpu(redis: &Redis) -> f64 {
    let info: String = redis.ask(&["INFO", "cpu"]).await;
    let part = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().parse::<f64>().unwrap() * 1e6
    };
    part("used_cpu_sys:") + part("used_cpu_user:")
}

/// Figures of as many limits as there may be.
#[tokio::test]
#[ignore = "measures ten thousand limits"]
async fn cost_of_ten_thousand_limits() {
    const LIMITS: usize = 10_000;
    let fixture = Fixture::set(API).await;
    let (redis, topup, other) = (&fixture.redis, &fixture.topup, patient(fixture.redis.url()).await);
    let idle = async |what: &str| {
        let before = (cpu(redis).await, now(redis).await);
        // The measurement: the cost of five seconds without a take.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let share = (cpu(redis).await - before.0) / (now(redis).await - before.1) as f64;
        println!("{what}: {:.2} % of a CPU of Redis", 100.0 * share);
    };
    idle("one limit, two clients, a daemon").await;
    let define = async |capacity: u64| {
        let before = (cpu(redis).await, now(redis).await);
        let mut running: JoinSet<Result<Defined, Error>> = JoinSet::new();
        for i in 0..LIMITS {
            if running.len() >= 32 {
                running.join_next().await.unwrap().unwrap().unwrap();
            }
            let terms = Terms::token_bucket(capacity, "10/s").keyed();
            running.spawn(topup.define(format!("tenant-{i}"), terms).into_future());
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap().unwrap();
        }
        let each = |sum: f64| sum / LIMITS as f64;
        let (spent, took) = (cpu(redis).await - before.0, (now(redis).await - before.1) as f64);
        println!("{:.0} µs of Redis each, {:.0} µs of time", each(spent), each(took));
    };
    define(100).await;
    let refused = topup.define("one-more", Terms::gcra(1, "1/s")).await.unwrap_err();
    assert!(matches!(refused, Error::TooManyDefined { most: LIMITS }), "{refused}");
    print!("renewed: ");
    define(100).await;
    idle("ten thousand limits").await;
    for i in 0..LIMITS {
        assert!(other.limit(format!("tenant-{i}")).key("a").take(1).await.unwrap().is_allowed());
    }
    let before = (cpu(redis).await, redis.command_calls("hgetall").await);
    for round in 0..5 {
        topup.define("tenant-7", Terms::token_bucket(200 + round, "10/s").keyed()).await.unwrap();
        let knows = async || other.limit("tenant-7").key("a").peek().await.unwrap().capacity() == 200 + round;
        eventually(SOON, knows).await;
    }
    let (spent, read) = (cpu(redis).await - before.0, redis.command_calls("hgetall").await - before.1);
    println!("five changes: {spent:.0} µs of Redis, {read} records read");
    let began = now(redis).await;
    let told = Cli::new(&["status"]).redis(redis).run().await;
    println!("status after {} ms, {} lines", (now(redis).await - began) / 1_000, told.stdout.lines().count());
    println!("{}", told.stdout.lines().take(4).collect::<Vec<_>>().join("\n"));
}
