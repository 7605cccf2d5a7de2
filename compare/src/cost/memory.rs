//! Memory of buckets: `MEMORY USAGE` of all keys, indexes included.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use topup_lab::clock::{Micros, SECOND};

use super::commands;
use crate::{
    fixture::Fixture,
    limiter::{Limiter, LimiterUnderTest},
    rule::Rule,
    traffic::{Fault, Keys, Pattern, Traffic},
};

/// Buckets that are weighed active: so many that Redis no longer packs an index of them more tightly than one of millions.
const BUCKETS: u32 = 200;
/// Buckets that are weighed idle, of all limiters at once.
const IDLE_BUCKETS: u32 = 10;
/// Takes of each bucket before.
const TAKES: u32 = 20;
/// Limiters that get them at once.
const AT_ONCE: usize = 3;
/// A bucket of 30 that is full again after a second or so.
const RULE: Rule = Rule::per_second(30, 10);
/// Time over which the takes are spread.
const TIME: Micros = SECOND / 2;
/// All buckets are full, and what expires has expired; a key that was in use is kept for some ticks more.
const IDLE_AFTER: Duration = Duration::from_millis(4_500);

/// Bytes of a bucket, and what it costs to keep it filled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes of a bucket just after 20 takes of 30 tokens.
    pub active: f64,
    /// Bytes of a bucket that nobody has asked for longer than it takes to fill it.
    pub idle: f64,
}

/// Weighs buckets of all `limiters`.
///
/// # Errors
/// When a worker or Redis fails.
pub async fn measure(fixture: &mut Fixture, limiters: &[Limiter]) -> anyhow::Result<Vec<Memory>> {
    let mut active = Vec::new();
    for limiters in limiters.chunks(AT_ONCE) {
        active.extend(weigh(fixture, limiters, BUCKETS, Duration::ZERO).await?);
    }
    let idle = weigh(fixture, limiters, IDLE_BUCKETS, IDLE_AFTER).await?;
    Ok(active.into_iter().zip(idle).map(|(active, idle)| Memory { active, idle }).collect())
}

/// Bytes of a bucket of each limiter, `after` so long without a take.
async fn weigh(
    fixture: &mut Fixture,
    limiters: &[Limiter],
    buckets: u32,
    after: Duration,
) -> anyhow::Result<Vec<f64>> {
    let limiters_under_test: Vec<LimiterUnderTest> =
        limiters.iter().map(|limiter| LimiterUnderTest::new(*limiter, RULE, "memory")).collect();
    // Key after key in turn, so that all of them are as old.
    let turns = Micros::from(buckets * TAKES);
    let trace = (0..buckets * TAKES).map(|turn| (Micros::from(turn) * TIME / turns, turn % buckets, 1));
    fixture
        .play(&traffic("memory", RULE, buckets, trace.collect(), TIME), limiters_under_test.clone(), 0)
        .await?;
    sleep(after).await;
    let mut all = Vec::new();
    for under_test in &limiters_under_test {
        all.push(fixture.server().bytes(under_test).await? as f64 / f64::from(buckets));
    }
    Ok(all)
}

fn traffic(name: &str, rule: Rule, keys: u32, trace: Vec<(Micros, u32, u32)>, time: Micros) -> Traffic {
    Traffic {
        name: name.to_owned(),
        says: String::new(),
        rule,
        keys: Keys::Even(keys),
        pattern: Pattern::Trace(trace),
        most: 1,
        time,
        skewed: false,
        workers: None,
        fault: Fault::None,
        quick: true,
    }
}

/// Costs of topup's daemon without takes, per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Upkeep {
    /// Active buckets.
    pub buckets: u32,
    /// µs of Redis in commands.
    pub redis: f64,
    /// CPU µs of the daemon.
    pub daemon: f64,
}

/// Measures what the daemon costs with so many buckets that are not full, for so long; with none, what it costs to run.
///
/// # Errors
/// When a worker or Redis fails.
pub async fn upkeep(fixture: &mut Fixture, buckets: u32, time: Duration) -> anyhow::Result<Upkeep> {
    // Emptied at once, and full again only after minutes: all of them are active throughout.
    let under_test = LimiterUnderTest::new(Limiter::TokenBucket, Rule::per_second(1_000, 10), "upkeep");
    let trace = (0..buckets).map(|key| (Micros::from(key) * 20, key, 100)).collect();
    let time_to_empty = Micros::from(buckets) * 20;
    let traffic = traffic("upkeep", under_test.rule, buckets.max(1), trace, time_to_empty);
    fixture.play(&traffic, vec![under_test], 0).await?;
    let (before, used) = (fixture.server().counters().await?, fixture.refillers().daemon_cpu());
    sleep(time).await;
    let (after, until) = (fixture.server().counters().await?, fixture.refillers().daemon_cpu());
    let (_, micros) = after.since(&before).of(commands(Limiter::TokenBucket));
    let seconds = time.as_secs_f64();
    Ok(Upkeep { buckets, redis: micros / seconds, daemon: (until - used) / seconds })
}
