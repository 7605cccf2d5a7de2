//! Waiting for something that no event announces.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Between two looks: short against a deadline, long against a look.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a look found: `bool`, `Option` and `Result` say whether that is what is waited for.
pub trait Outcome {
    /// What the wait gives when it is over.
    type Value;

    /// The value, or what was found instead of it.
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

/// Looks again and again until `look` finds what is waited for, and gives it.
///
/// # Panics
///
/// When `deadline` passes; the message says what the last look found.
pub async fn eventually<Look, O>(deadline: Duration, mut look: Look) -> O::Value
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
            sleep(LOOK_AGAIN).await;
        }
    };
    let ended = timeout(deadline, wait).await;
    ended.unwrap_or_else(|_| panic!("not within {deadline:?}; the last look: {found}"))
}
