//! A wait for a condition that no event announces.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Between two looks: short against a deadline, long against a look.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The finding of a look: `true`, `Some` and `Ok` end the wait.
pub trait Outcome {
    /// The value of the wait.
    type Value;

    /// The value, or the finding instead of it.
    ///
    /// # Errors
    ///
    /// When the wait is not over.
    fn settled(self) -> Result<Self::Value, String>;
}

// === impl Outcome ===

impl Outcome for bool {
    type Value = ();

    fn settled(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("it does not hold".into()) }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;

    fn settled(self) -> Result<T, String> {
        self.ok_or_else(|| "there is none".into())
    }
}

impl<T, E: Debug> Outcome for Result<T, E> {
    type Value = T;

    fn settled(self) -> Result<T, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Looks again and again until `look` ends the wait, and gives its value.
///
/// # Panics
///
/// When `deadline` passes; the message says who waits and what the last look found.
#[track_caller]
pub fn eventually<Look, O>(deadline: Duration, look: Look) -> impl Future<Output = O::Value>
where
    Look: AsyncFnMut() -> O,
    O: Outcome,
{
    wait(deadline, look, Location::caller())
}

/// Looks again and again until `look` finds nothing.
///
/// # Panics
///
/// When `deadline` passes; the message says who waits and what is left.
#[track_caller]
pub fn none_left<Look>(deadline: Duration, mut look: Look) -> impl Future<Output = ()>
where
    Look: AsyncFnMut() -> Vec<String>,
{
    let caller = Location::caller();
    let look = async move || {
        let left = look().await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    wait(deadline, look, caller)
}

async fn wait<Look, O>(deadline: Duration, mut look: Look, caller: &Location<'_>) -> O::Value
where
    Look: AsyncFnMut() -> O,
    O: Outcome,
{
    let mut found = "nothing, the first look did not end".to_owned();
    let wait = async {
        loop {
            match look().await.settled() {
                Ok(value) => return value,
                Err(instead) => found = instead,
            }
            // The pause between two looks: the deadline and the look decide, not the pause.
            sleep(LOOK_AGAIN).await;
        }
    };
    let ended = timeout(deadline, wait).await;
    ended.unwrap_or_else(|_| panic!("{caller}: not within {deadline:?}; the last look: {found}"))
}
