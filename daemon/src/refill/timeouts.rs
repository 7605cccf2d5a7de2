//! Timeouts and periods of the engine.

use std::{future::Future, time::Duration};

use redis::{ErrorKind, RedisError, RedisResult};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// The longest that one request to Redis may take before it counts as failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The life of a heartbeat, some turns of the loop long. With a shorter one, a hiccup of a busy machine would send all
/// workers to the scripts. With a longer one, workers would trust a dead daemon.
pub(super) const HEARTBEAT_LIFE: Duration = Duration::from_secs(1);
/// The shortest time between a failure and the next attempt.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The longest turn of the loop. A Redis that has lost its keys, and a boundary of a schedule, are noticed within it.
const LONGEST_TURN: Duration = Duration::from_millis(25);
/// The shortest turn of the loop, unless the tick itself is shorter.
const SHORTEST_TURN: Duration = Duration::from_millis(5);

/// The answer to `request`, or an error if it takes longer than a second.
pub(super) async fn with_timeout<T>(request: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {REQUEST_TIMEOUT:?}")));
    timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| Err(late()))
}

/// The turns of the loop: four to a tick, within 5 ms and 25 ms. A bucket is then credited soon after it is due, and
/// the work of a tick spreads over the turns.
pub(super) fn turns(tick: Duration) -> Interval {
    let turn = (tick / 4).clamp(SHORTEST_TURN.min(tick), LONGEST_TURN);
    let mut turns = interval(turn);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    turns
}
