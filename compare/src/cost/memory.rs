//! What buckets weigh: `MEMORY USAGE` of all keys, indexes included.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::commands;
use crate::{
    clock::{Micros, SECOND},
    limiter::{Contender, Limiter},
    rule::Rule,
    stage::Stage,
    traffic::{Fault, Keys, Pattern, Traffic},
};

/// Buckets that are weighed.
const BUCKETS: u32 = 100;
/// Takes of each bucket before.
const TAKES: u32 = 60;
/// A bucket of 100 that is full again after two seconds.
const RULE: Rule = Rule::per_second(100, 50);
/// How long the takes are spread over.
const TIME: Micros = SECOND;
/// All buckets are full, and what expires has expired; a key that was in use is kept for some ticks more.
const IDLE_AFTER: Duration = Duration::from_millis(4_500);

/// Bytes of a bucket, and what it costs to keep it filled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes of a bucket just after 60 takes of 100 tokens.
    pub active: f64,
    /// Bytes of a bucket that nobody has asked for longer than it takes to fill it.
    pub idle: f64,
}

/// Weighs buckets of all `limiters`.
///
/// # Errors
/// When a worker or Redis fails.
pub async fn measure(stage: &mut Stage, limiters: &[Limiter]) -> anyhow::Result<Vec<Memory>> {
    let contenders: Vec<Contender> =
        limiters.iter().map(|limiter| Contender::new(*limiter, RULE, "memory")).collect();
    // Key after key in turn, so that all of them are as old.
    let gap = TIME / Micros::from(BUCKETS * TAKES);
    let trace = (0..BUCKETS * TAKES).map(|turn| (Micros::from(turn) * gap, turn % BUCKETS, 1)).collect();
    let traffic = Traffic {
        name: "memory".to_owned(),
        says: String::new(),
        rule: RULE,
        keys: Keys::Even(BUCKETS),
        pattern: Pattern::Trace(trace),
        most: 1,
        time: TIME,
        skewed: false,
        fault: Fault::None,
        quick: true,
    };
    stage.play(&traffic, contenders.clone(), 0).await?;
    let active = weigh(stage, &contenders).await?;
    sleep(IDLE_AFTER).await;
    let idle = weigh(stage, &contenders).await?;
    Ok(active.into_iter().zip(idle).map(|(active, idle)| Memory { active, idle }).collect())
}

async fn weigh(stage: &mut Stage, contenders: &[Contender]) -> anyhow::Result<Vec<f64>> {
    let mut all = Vec::new();
    for contender in contenders {
        all.push(stage.server().bytes(contender).await? as f64 / f64::from(BUCKETS));
    }
    Ok(all)
}

/// What topup's daemon costs while nobody asks, per second.
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
pub async fn upkeep(stage: &mut Stage, buckets: u32, time: Duration) -> anyhow::Result<Upkeep> {
    // Emptied at once, and full again only after minutes: all of them are active throughout.
    let contender = Contender::new(Limiter::TokenBucket, Rule::per_second(1_000, 10), "upkeep");
    let trace = (0..buckets).map(|key| (Micros::from(key) * 20, key, 100)).collect();
    let traffic = Traffic {
        name: "upkeep".to_owned(),
        says: String::new(),
        rule: contender.rule,
        keys: Keys::Even(buckets.max(1)),
        pattern: Pattern::Trace(trace),
        most: 1,
        time: Micros::from(buckets) * 20,
        skewed: false,
        fault: Fault::None,
        quick: true,
    };
    stage.play(&traffic, vec![contender], 0).await?;
    let (before, used) = (stage.server().meter().await?, stage.refillers().daemon_cpu());
    sleep(time).await;
    let (after, until) = (stage.server().meter().await?, stage.refillers().daemon_cpu());
    let (_, micros) = after.since(&before).of(commands(Limiter::TokenBucket));
    let seconds = time.as_secs_f64();
    Ok(Upkeep { buckets, redis: micros / seconds, daemon: (until - used) / seconds })
}
