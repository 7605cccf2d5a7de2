//! Whether Redis is there, and saying so once.

use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::clock::Moment;

/// The longest pause between two attempts: how long a Redis that is back may wait for its daemon.
///
/// Until a new Redis has heard of the limits, workers are told that there are none.
const LONGEST: Duration = Duration::from_millis(100);
/// While Redis stays away, that is said again this often.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// Redis's presence as this daemon sees it.
#[derive(Debug, Default)]
pub struct Presence(Option<Absence>);

#[derive(Debug)]
struct Absence {
    since: Moment,
    said: Moment,
    attempts: u32,
    pause_from: Moment,
    pause: Duration,
}

// === impl Presence ===

impl Presence {
    /// Whether Redis answered last time.
    pub fn is_present(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it is too early for the next attempt.
    pub fn is_pausing(&self) -> bool {
        self.0.as_ref().is_some_and(|absence| absence.pause_from.elapsed() < absence.pause)
    }

    /// Redis gave no answer.
    pub fn lost(&mut self, error: &RedisError, first_pause: Duration) {
        let now = Moment::now();
        match &mut self.0 {
            None => {
                tracing::warn!("{}; trying again", trouble(error));
                let pause = first_pause.min(LONGEST);
                self.0 = Some(Absence { since: now, said: now, attempts: 1, pause_from: now, pause });
            }
            Some(absence) => {
                absence.attempts += 1;
                absence.pause_from = now;
                absence.pause = absence.pause.saturating_mul(2).min(LONGEST);
                if absence.said.elapsed() >= SAY_AGAIN {
                    absence.said = now;
                    let (attempts, away) = (absence.attempts, absence.since.elapsed().as_secs());
                    tracing::warn!("{}; still, after {away} s and {attempts} attempts", trouble(error));
                }
            }
        }
    }

    /// Redis answered: whether it had been away.
    pub fn found(&mut self) -> bool {
        let Some(absence) = self.0.take() else { return false };
        tracing::info!("Redis is back after {:.1} s", absence.since.elapsed().as_secs_f64());
        true
    }
}

/// What is wrong, in an operator's words.
fn trouble(error: &RedisError) -> String {
    // Before the password it takes no more than ten arguments, and says that instead of NOAUTH.
    let unknown = error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
        || error.to_string().contains("unauthenticated");
    if unknown {
        let places = "redis.url, TOPUP_REDIS_URL or the credential redis-url";
        format!("Redis refuses ({error}): the password in {places} is missing or wrong")
    } else if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        format!("Redis is away ({error})")
    } else {
        format!("Redis refuses ({error})")
    }
}
