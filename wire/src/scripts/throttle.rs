//! `CL.THROTTLE` of the module redis-cell: by the module where the server has it, else by a script.

use std::sync::LazyLock;

use redis::{Cmd, RedisError, RedisResult, Script, Value, aio::ConnectionLike};

use super::script;
use crate::{limit::Throttle, namespace::InNamespace, reply::Throttled};

static THROTTLE: LazyLock<Script> = script!("throttle.lua");

/// Whether the server has `CL.THROTTLE`.
///
/// # Errors
/// Errors of Redis; some servers refuse the command.
pub async fn has_cell(connection: &mut impl ConnectionLike) -> RedisResult<bool> {
    let mut ask = Cmd::new();
    ask.arg("COMMAND").arg("INFO").arg("CL.THROTTLE");
    let known: Vec<Value> = ask.query_async(connection).await?;
    Ok(known.iter().any(|command| *command != Value::Nil))
}

/// Calls the module for `key`. In the default namespace, that is also the key in Redis.
///
/// # Errors
/// Errors of Redis, see [`is_no_command`]. The call may have counted all the same.
pub async fn cell_throttle(
    connection: &mut impl InNamespace,
    key: &str,
    throttle: Throttle,
) -> RedisResult<Throttled> {
    let mut ask = Cmd::new();
    ask.arg("CL.THROTTLE").arg(connection.namespace().cell_key(key));
    ask.arg(&throttle.as_args()[..]).query_async(connection).await
}

/// The same by a script, under a key of topup.
///
/// # Errors
/// Errors of Redis. The call may have counted all the same.
pub async fn throttle(
    connection: &mut impl InNamespace,
    key: &str,
    throttle: Throttle,
) -> RedisResult<Throttled> {
    let state = connection.namespace().throttle_state(key);
    THROTTLE.key(state).arg(&throttle.as_args()[..]).invoke_async(connection).await
}

/// Whether `error` says that the server has no such command. Nothing was done.
pub fn is_no_command(error: &RedisError) -> bool {
    error.to_string().to_ascii_lowercase().contains("unknown command")
}
