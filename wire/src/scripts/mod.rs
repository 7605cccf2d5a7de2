//! Every request to Redis, each script beside the code that calls it.
//!
//! Functions take the connection as `&mut impl ConnectionLike`; a clone of a shared connection is cheap.

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, aio::ConnectionLike};

mod carry;
mod daemons;
mod lazy;
mod publish;
mod refill;
mod registry;
mod settle;
mod sweep;

pub use carry::{carry, list_former};
pub use daemons::{DaemonStatus, Health, daemons, eviction_policy, heartbeat, poll, retire};
pub use lazy::{ask_lazy, lazy};
pub use publish::{publish, read_limit};
pub use refill::{count_active, earliest, list_due, list_future, refill};
pub use registry::{announce, forget, generation, published_limits, register};
pub use settle::{ask_decrement, ask_settle, decrement, settle};
pub use sweep::{drop_record, sweep_counters, sweep_lazy, touch_lazy};

/// Whether Redis has to be given the text of a script first.
pub fn is_not_loaded(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Gives Redis the texts of the scripts that take.
///
/// # Errors
/// Those of Redis.
pub async fn load(connection: &mut impl ConnectionLike) -> RedisResult<()> {
    for script in [&settle::SETTLE, &lazy::LAZY] {
        script.prepare_invoke().load_async(connection).await?;
    }
    Ok(())
}

/// The source of a script: the shared parts it is written upon, then itself.
macro_rules! script {
    ($file:literal) => {
        std::sync::LazyLock::new(|| {
            redis::Script::new(concat!(
                include_str!("time.lua"),
                include_str!("bucket.lua"),
                include_str!($file)
            ))
        })
    };
}
use script;
