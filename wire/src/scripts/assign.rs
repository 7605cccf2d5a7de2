//! Changes of assignments: some keys at once.

use std::{sync::LazyLock, time::Duration};

use redis::{ParsingError, RedisResult, Script};
use tokio::time::sleep;

use super::assignment_index::{ATTEMPTS, assignment_index, matters_for};
use crate::{
    assignments::Shape,
    constants::with_constants,
    limit::{Assignment, LimitName},
    namespace::InNamespace,
};

static ASSIGN: LazyLock<Script> = LazyLock::new(|| Script::new(&with_constants(include_str!("assign.lua"))));

/// Most changes that the log tells. A worker that has missed more reads the filters again.
pub const MOST_LOGGED: usize = 1_000;
/// Most keys of one call that assigns.
pub const MOST_AT_ONCE: usize = 250;

/// A change of one key's assignment; `None` takes it back.
pub type KeyChange = (String, Option<Assignment>);

/// The outcome of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The instant of the call, in µs of Redis `TIME`.
    pub now: u64,
    /// The instant at which it takes force.
    pub at: u64,
    /// Keys whose assignment has changed.
    pub changed: u64,
}

/// Assigns keys of the limit `name`, at most [`MOST_AT_ONCE`], or takes their assignments back. The change takes force
/// 1.25 s later in all workers at once. If an earlier change of a key has not taken force yet, it waits for that.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn assign(
    connection: &mut impl InNamespace,
    name: &LimitName,
    changes: &[KeyChange],
) -> RedisResult<Change> {
    loop {
        match try_assign(connection, name, changes).await? {
            Ok(change) => return Ok(change),
            Err(wait) => sleep(wait).await,
        }
    }
}

/// The same, or the time after which it can be done.
///
/// # Errors
/// As [`assign`].
pub async fn try_assign(
    connection: &mut impl InNamespace,
    name: &LimitName,
    changes: &[KeyChange],
) -> RedisResult<Result<Change, Duration>> {
    let namespace = connection.namespace();
    let mut shape = Shape::for_keys(1, 0);
    let matters_for = matters_for(connection, name).await?;
    for _ in 0..ATTEMPTS {
        let mut call = ASSIGN.key(namespace.assigned());
        call.key(namespace.assignment_log()).key(namespace.assignment_filter(name, &shape));
        call.arg(name.as_str()).arg(shape.to_string()).arg(MOST_LOGGED);
        call.arg(shape.bits_of("").len()).arg(matters_for);
        for (key, assignment) in changes {
            call.key(namespace.assignment_hash(name, &shape, shape.hash_of(key)));
            let until = assignment.and_then(|one| one.until);
            call.arg(key).arg(assignment.map_or("-".to_owned(), |one| one.target.to_string()));
            call.arg(until.map_or_else(String::new, |until| until.to_string()));
            for bit in shape.bits_of(key) {
                call.arg(bit);
            }
        }
        let (done, now, at, changed): (u8, u64, u64, u64) = call.invoke_async(connection).await?;
        match done {
            1 => return Ok(Ok(Change { now, at, changed })),
            2 => return Ok(Err(Duration::from_micros(at.saturating_sub(now)))),
            _ => {}
        }
        if let Some(known) = assignment_index(connection).await?.shapes.get(name) {
            shape = *known;
        }
    }
    Err(ParsingError::from("the assignments are arranged anew all the time").into())
}
