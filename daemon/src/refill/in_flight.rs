//! A request or task in flight that the loop owns and polls.

use std::{future::Future, pin::Pin};

/// A task in flight.
pub(super) type InFlight<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Waits for the task and takes it out of `task`. `None` at once if there is none, which disables a branch of
/// `select!`.
pub(super) async fn finished<T>(task: &mut Option<InFlight<T>>) -> Option<T> {
    let result = task.as_mut()?.await;
    *task = None;
    Some(result)
}
