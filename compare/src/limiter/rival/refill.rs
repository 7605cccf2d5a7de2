//! The task that tops up counters, as usually written: every tick, every key there is, the same for all.

use std::time::Duration;

use redis::{Cmd, Pipeline, RedisResult, Script, aio::ConnectionLike};
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};
use topup_wire::connection::connect_lazily;

use super::super::{Limiter, LimiterUnderTest};
use topup_lab::clock::Micros;

/// Keys of one script: about a millisecond of Redis.
const SLICE: usize = 500;

/// Orders of the task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refill {
    /// Where.
    pub redis: String,
    /// Rivals that are ticked, and how many keys each has.
    pub jobs: Vec<(LimiterUnderTest, u32)>,
    /// How often.
    pub tick: Micros,
    /// Whether counters are to be filled first.
    pub fill: bool,
}

// === impl Refill ===

impl Refill {
    /// Refills until it is killed; calls `ready` once all counters are full.
    ///
    /// # Errors
    /// When Redis refuses before that.
    pub async fn run(&self, ready: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut connection = connect_lazily(&self.redis)?;
        let script = Script::new(include_str!("tick_refill.lua"));
        if self.fill {
            for (under_test, keys) in &self.jobs {
                let mut pipeline = Pipeline::new();
                (0..*keys).for_each(|key| {
                    pipeline.set(format!("{}:{key}", under_test.name), under_test.rule.capacity).ignore();
                });
                pipeline.exec_async(&mut connection).await?;
            }
        }
        ready()?;
        let mut ticks = interval(Duration::from_micros(self.tick));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            for (under_test, keys) in &self.jobs {
                // A tick that Redis does not answer is lost.
                let _ = top_up(&mut connection, &script, under_test, *keys, self.tick).await;
            }
        }
    }
}

async fn top_up(
    connection: &mut impl ConnectionLike,
    script: &Script,
    under_test: &LimiterUnderTest,
    keys: u32,
    tick: Micros,
) -> RedisResult<()> {
    let rule = under_test.rule;
    // At least one: less would be nothing for ever.
    let credit = (rule.tokens * tick / rule.micros).max(1);
    let names: Vec<String> = (0..keys).map(|key| format!("{}:{key}", under_test.name)).collect();
    for names in names.chunks(SLICE) {
        if under_test.limiter == Limiter::TickClamped {
            let mut call = script.prepare_invoke();
            for name in names {
                call.key(name);
            }
            call.arg(credit).arg(rule.capacity).invoke_async::<()>(connection).await?;
            continue;
        }
        let held: Vec<Option<i64>> = Cmd::mget(names).query_async(connection).await?;
        let mut pipeline = Pipeline::new();
        for (name, held) in names.iter().zip(held) {
            if held.unwrap_or(0) < rule.capacity.cast_signed() {
                pipeline.incr(name, credit).ignore();
            }
        }
        pipeline.exec_async(connection).await?;
    }
    Ok(())
}
