//! A request or task in flight that the loop owns and polls.

use std::{future::Future, pin::Pin, time::Duration};

use topup_wire::reply::Beat;

use super::redis_health::Failure;
use crate::clock::Moment;

/// A task in flight.
pub(super) type InFlight<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A heartbeat that has ended.
pub(super) struct EndedHeartbeat {
    /// Redis `TIME` in µs when it was sent; 0 if that was not known.
    pub(super) sent: u64,
    pub(super) began: Moment,
    pub(super) latency: Duration,
    pub(super) result: Result<Beat, Failure>,
}

/// Waits for the task and takes it out of `task`. `None` at once if there is none, which disables a branch of
/// `select!`.
pub(super) async fn finished<T>(task: &mut Option<InFlight<T>>) -> Option<T> {
    let result = task.as_mut()?.await;
    *task = None;
    Some(result)
}
