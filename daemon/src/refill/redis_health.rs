//! The health of Redis as this daemon sees it: logs an outage once, and spaces the attempts to end it.

use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::clock::Moment;

/// The longest pause between two attempts, and so the longest that a recovered Redis waits for its daemon. Until a new
/// Redis has the limits, workers find none.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The time between two log lines during an outage.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The health of Redis.
#[derive(Debug, Default)]
pub(super) struct RedisHealth(Option<Outage>);

#[derive(Debug)]
struct Outage {
    began: Moment,
    logged: Moment,
    attempts: u32,
    last_attempt: Moment,
    pause: Duration,
}

// === impl RedisHealth ===

impl RedisHealth {
    /// Whether Redis answered the last heartbeat.
    pub(super) fn is_up(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it is too early for the next attempt.
    pub(super) fn is_pausing(&self) -> bool {
        self.0.as_ref().is_some_and(|outage| outage.last_attempt.elapsed() < outage.pause)
    }

    /// Records a failed attempt. Pauses double from `first_pause` up to 100 ms.
    pub(super) fn failed(&mut self, error: &RedisError, first_pause: Duration) {
        let now = Moment::now();
        match &mut self.0 {
            None => {
                tracing::warn!("{}; trying again", describe(error));
                let pause = first_pause.min(LONGEST_PAUSE);
                self.0 = Some(Outage { began: now, logged: now, attempts: 1, last_attempt: now, pause });
            }
            Some(outage) => {
                outage.attempts += 1;
                outage.last_attempt = now;
                outage.pause = outage.pause.saturating_mul(2).min(LONGEST_PAUSE);
                if outage.logged.elapsed() >= LOG_INTERVAL {
                    outage.logged = now;
                    let (attempts, seconds) = (outage.attempts, outage.began.elapsed().as_secs());
                    tracing::warn!(
                        "{}; still trying, {attempts} attempts in {seconds} s so far",
                        describe(error)
                    );
                }
            }
        }
    }

    /// Records an answer. Returns whether it ends an outage.
    pub(super) fn answered(&mut self) -> bool {
        let Some(outage) = self.0.take() else { return false };
        tracing::info!("Redis is back after {:.1} s", outage.began.elapsed().as_secs_f64());
        true
    }
}

/// The error in an operator's words.
fn describe(error: &RedisError) -> String {
    // Without the password, Redis refuses a command of more than ten arguments with this word and no NOAUTH.
    let wants_password = error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
        || error.to_string().contains("unauthenticated");
    if wants_password {
        let places = "redis.url, TOPUP_REDIS_URL or the credential redis-url";
        format!("Redis refuses ({error}): the password in {places} is missing or wrong")
    } else if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        format!("Redis is away ({error})")
    } else {
        format!("Redis refuses ({error})")
    }
}
