//! The forms in which rate limiting on Redis is usually written, faithfully, flaws included. They live only here.

mod fixed;
mod lazy;
mod leaky;
mod log;
mod refill;
mod tick;

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{FromRedisValue, RedisResult, Script};
use topup_lab::clock;
use topup_wire::connection::{Connection, connect_lazily};

use super::{Ask, Limiter, LimiterUnderTest};
use crate::{rule::Rule, take::Answer};

pub use refill::Refill;

/// The longest a rival waits for Redis: as long as topup's client does.
const DEADLINE: Duration = Duration::from_millis(250);

/// The parts that all rivals share.
pub(super) struct Common {
    connection: Connection,
    rule: Rule,
    prefix: String,
    worker: u32,
    skew: i64,
}

/// A form of limiter.
trait Form: Send + Sync {
    /// Takes `count` tokens under the Redis key `key`.
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>>;
}

struct Rival<F> {
    common: Common,
    form: F,
}

pub(super) fn asker(
    redis: &str,
    under_test: &LimiterUnderTest,
    worker: u32,
    skew: i64,
) -> anyhow::Result<Box<dyn Ask>> {
    let connection = connect_lazily(redis)?;
    let common = Common { connection, rule: under_test.rule, prefix: under_test.name.clone(), worker, skew };
    Ok(match under_test.limiter {
        Limiter::LazyLua => Box::new(Rival { common, form: lazy::Lua::new() }),
        Limiter::LazyWorkerClock => Box::new(Rival { common, form: lazy::WorkerClock::new() }),
        Limiter::FixedRacy => Box::new(Rival { common, form: fixed::Racy }),
        Limiter::FixedLua => Box::new(Rival { common, form: fixed::Lua::new() }),
        Limiter::LogPipelined => Box::new(Rival { common, form: log::Pipelined::default() }),
        Limiter::LeakyTwoKeys => Box::new(Rival { common, form: leaky::TwoKeys }),
        Limiter::TickUnclamped => Box::new(Rival { common, form: tick::Unclamped }),
        Limiter::TickClamped => Box::new(Rival { common, form: tick::Clamped::new() }),
        other => anyhow::bail!("{} is no rival", other.name()),
    })
}

// === impl Common ===

impl Common {
    fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// The time of day by the clock of this worker, in µs since the Unix epoch.
    fn worker_clock(&self) -> u64 {
        clock::time_of_day().saturating_add_signed(self.skew)
    }

    /// The length of a window in whole ms, for commands that count so.
    fn window_ms(&self) -> u64 {
        self.rule.window().div_ceil(1_000)
    }

    async fn run<T: FromRedisValue>(&self, script: &Script, key: String, args: &[u64]) -> RedisResult<T> {
        script.key(key).arg(args).invoke_async(&mut self.connection()).await
    }
}

impl<F: Form> Ask for Rival<F> {
    fn take<'a>(&'a self, key: &'a str, count: u64) -> BoxFuture<'a, anyhow::Result<Answer>> {
        Box::pin(async move {
            let key = format!("{}:{key}", self.common.prefix);
            let allowed =
                tokio::time::timeout(DEADLINE, self.form.decide(&self.common, key, count)).await??;
            Ok(if allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } })
        })
    }
}
