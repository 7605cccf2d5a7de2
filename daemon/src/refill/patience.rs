//! Waiting for Redis, but not for ever.

use std::{future::Future, pin::Pin, time::Duration};

use redis::{ErrorKind, RedisError, RedisResult};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::clock::Moment;

/// The longest one request to Redis may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(1);
/// What failed is tried again no sooner.
pub(super) const LONGEST_TICK: Duration = Duration::from_millis(250);

/// However long the refill period, the loop comes round this often: a Redis that has lost everything is noticed by then, and
/// a boundary of a schedule.
const LONGEST_TURN: Duration = Duration::from_millis(25);

/// However short the refill period, the loop comes round no more often than this, or than once a tick.
const SHORTEST_TURN: Duration = Duration::from_millis(5);

/// What goes on is worth a word no more often than this.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Something that is said now and then, however often it happens.
#[derive(Debug, Default)]
pub(super) struct NowAndThen(Option<Moment>);

/// Something under way.
pub(super) type InFlight<T> = Pin<Box<dyn Future<Output = T> + Send>>;

// === impl NowAndThen ===

impl NowAndThen {
    /// It happens: whether that is to be said.
    pub(super) fn is_news(&mut self) -> bool {
        if self.0.is_some_and(|said| said.elapsed() < SAY_EVERY) {
            return false;
        }
        self.0 = Some(Moment::now());
        true
    }
}

/// A request that fails when it takes too long.
pub(super) async fn patiently<T>(request: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {PATIENCE:?}")));
    timeout(PATIENCE, request).await.unwrap_or_else(|_| Err(late()))
}

/// What has finished, taken out of its place; never ready while there is nothing.
pub(super) async fn finished<T>(running: &mut Option<InFlight<T>>) -> Option<T> {
    let done = running.as_mut()?.await;
    *running = None;
    Some(done)
}

/// Turns of the loop for a refill period: four to a tick, so that a bucket is credited soon after it is due, and the work
/// of a tick is spread over it. Looking more often than a limit is refilled does no harm, saying nothing for long would.
pub(super) fn ticks(tick: Duration) -> Interval {
    let turn = (tick / 4).clamp(SHORTEST_TURN.min(tick), LONGEST_TURN);
    let mut ticks = interval(turn);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
