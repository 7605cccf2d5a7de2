//! Arrangements of a limit's assignments in hashes: begun, put in force, and removed.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script};

use super::{
    all_assigned::{AllAssigned, HASHES_AT_ONCE},
    assignment_index::{ATTEMPTS, assignment_index},
};
use crate::{assignments::Shape, constants::with_constants, limit::LimitName, namespace::InNamespace};

static ARRANGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&with_constants(include_str!("arrange.lua"))));
/// Workers know of a new arrangement by then, and read nothing of the one before any more.
pub const IDLE: Duration = Duration::from_secs(2);

/// Notes a new arrangement that is not in force yet. No other has its number.
pub(super) async fn begin_arrangement(
    connection: &mut impl InNamespace,
    name: &LimitName,
    held: &AllAssigned,
    keys: u64,
) -> RedisResult<Shape> {
    let index = connection.namespace().assigned();
    let count = |by: u64| Cmd::hincr(&index, " number", by);
    // Where there is no arrangement, `assign` makes the first one.
    let past = held.shape.map_or(1, |shape| shape.number);
    let mut number: u64 = count(1).query_async(connection).await?;
    if number <= past {
        number = count(past + 1 - number).query_async(connection).await?;
    }
    let shape = Shape::for_keys(number, keys);
    let (field, value) = (idle_field(name, &shape), format!("{} {} {}", shape.hashes, shape.bits, held.now));
    Cmd::hset(&index, field, value).query_async::<()>(connection).await?;
    Ok(shape)
}

pub(super) async fn arrange(
    connection: &mut impl InNamespace,
    name: &LimitName,
    version: u64,
    shape: &str,
) -> RedisResult<(u8, u64, u64)> {
    let namespace = connection.namespace();
    let mut call = ARRANGE.key(namespace.assigned());
    call.key(namespace.assignment_log()).arg(name.as_str()).arg(version).arg(shape);
    call.invoke_async(connection).await
}

/// Removes the arrangements of the limit `name` that have not been in force for the time `idle`. They were replaced, or
/// their replacement was given up.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn remove_idle(
    connection: &mut impl InNamespace,
    name: &LimitName,
    idle: Duration,
) -> RedisResult<()> {
    let index = assignment_index(connection).await?;
    let of_limit: Vec<&Shape> =
        index.idle.iter().filter(|(other, _)| other == name).map(|(_, shape)| shape).collect();
    if of_limit.is_empty() {
        return Ok(());
    }
    let now = super::now(connection).await?;
    for shape in of_limit {
        if now.saturating_sub(shape.at) >= idle.as_micros() as u64 {
            remove_arrangement(connection, name, shape).await?;
        }
    }
    Ok(())
}

/// Removes the hashes and the filter of an arrangement that is not in force.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn remove_arrangement(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
) -> RedisResult<()> {
    let namespace = connection.namespace();
    let mut asked = redis::pipe();
    asked.cmd("UNLINK").arg(namespace.assignment_filter(name, shape)).ignore();
    asked.query_async::<()>(connection).await?;
    let hashes: Vec<u64> = (0..shape.hashes).collect();
    for hashes in hashes.chunks(HASHES_AT_ONCE) {
        let mut unlink = Cmd::new();
        unlink.arg("UNLINK");
        for hash in hashes {
            unlink.arg(namespace.assignment_hash(name, shape, *hash));
        }
        unlink.query_async::<()>(connection).await?;
    }
    Cmd::hdel(namespace.assigned(), idle_field(name, shape)).query_async(connection).await
}

/// Removes all assignments of a limit that is removed itself, or all that a source has brought.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn forget_assigned(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    for _ in 0..ATTEMPTS {
        remove_idle(connection, name, Duration::ZERO).await?;
        let index = assignment_index(connection).await?;
        let Some(shape) = index.shapes.get(name) else { return Ok(()) };
        remove_arrangement(connection, name, shape).await?;
        let version = index.versions.get(name).copied().unwrap_or(0);
        if arrange(connection, name, version, "").await?.0 == 1 {
            return Ok(());
        }
    }
    Err(ParsingError::from("the assignments change all the time").into())
}

fn idle_field(name: &LimitName, shape: &Shape) -> String {
    format!(" idle {name} {}", shape.number)
}
