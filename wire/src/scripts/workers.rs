//! Workers alive, counted for their shares of a limit while Redis is away.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script};

use crate::namespace::InNamespace;

static REPORT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("workers.lua")));

/// Reports that the worker `id` is alive, for the time `good_for`. Returns the number of workers alive.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn report_worker(
    connection: &mut impl InNamespace,
    id: &str,
    good_for: Duration,
) -> RedisResult<u64> {
    let workers = connection.namespace().workers();
    REPORT.key(workers).arg(id).arg(good_for.as_millis() as u64).invoke_async(connection).await
}

/// Withdraws the report of the worker `id`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn retire_worker(connection: &mut impl InNamespace, id: &str) -> RedisResult<()> {
    Cmd::zrem(connection.namespace().workers(), id).query_async(connection).await
}
