//! The health of Redis as this daemon sees it: logs an outage once for each cause, and spaces the attempts to end it.

use std::{fmt, time::Duration};

use redis::RedisError;
use topup_wire::{
    connection::{Cause, Connection},
    scripts,
};

use crate::{clock::Moment, trouble};

/// The longest pause between two attempts, and so the longest that a recovered Redis waits for its daemon. Until a new
/// Redis has the limits, workers find none.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The time between two log lines during an outage.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// The time between two log lines of an outage whose cause changes.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);

/// The health of Redis.
#[derive(Debug, Default)]
pub(super) struct RedisHealth(Option<Outage>);

/// A failed attempt.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    error: RedisError,
    cause: Cause,
}

#[derive(Debug)]
struct Outage {
    last: Failure,
    began: Moment,
    logged: Moment,
    /// The cause in the last log line.
    logged_cause: Cause,
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

    /// The last failed attempt of an outage.
    pub(super) fn last_failure(&self) -> Option<&Failure> {
        self.0.as_ref().map(|outage| &outage.last)
    }

    /// The cause of an outage.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.last_failure().map(|failure| failure.cause)
    }

    /// Whether it is too early for the next attempt.
    pub(super) fn is_pausing(&self) -> bool {
        self.0.as_ref().is_some_and(|outage| outage.last_attempt.elapsed() < outage.pause)
    }

    /// Records an attempt that began at `began` and failed. Pauses double from `first_pause` up to 100 ms.
    pub(super) fn failed(&mut self, failure: Failure, began: Moment, first_pause: Duration) {
        let (now, cause) = (Moment::now(), failure.cause);
        let Some(outage) = &mut self.0 else {
            tracing::warn!("{failure}; trying again");
            self.0 = Some(Outage {
                last: failure,
                began,
                logged: now,
                logged_cause: cause,
                attempts: 1,
                last_attempt: now,
                pause: first_pause.min(LONGEST_PAUSE),
            });
            return;
        };
        outage.attempts += 1;
        outage.last_attempt = now;
        outage.pause = outage.pause.saturating_mul(2).min(LONGEST_PAUSE);
        let interval = if cause == outage.logged_cause { LOG_INTERVAL } else { CHANGE_INTERVAL };
        if outage.logged.elapsed() >= interval {
            let (attempts, seconds) = (outage.attempts, outage.began.elapsed().as_secs());
            tracing::warn!("{failure}; still trying, {attempts} attempts in {seconds} s so far");
            (outage.logged, outage.logged_cause) = (now, cause);
        }
        outage.last = failure;
    }

    /// Records an answer. Returns whether it ends an outage.
    pub(super) fn answered(&mut self) -> bool {
        let Some(outage) = self.0.take() else { return false };
        tracing::info!("Redis is back after {:.1} s", outage.began.elapsed().as_secs_f64());
        true
    }
}

// === impl Failure ===

impl Failure {
    pub(super) const fn cause(&self) -> Cause {
        self.cause
    }

    /// The failure by `error`. Redis is asked for the cause unless `last`, the failure before, had the same error.
    pub(super) async fn diagnose(error: RedisError, connection: &Connection, last: Option<Self>) -> Self {
        let same = last.filter(|last| last.error.to_string() == error.to_string());
        let cause = match same {
            Some(last) => last.cause,
            None => connection.diagnose(&error).await,
        };
        Self { error, cause }
    }

    /// Whether a key holds what no topup has written.
    pub(super) fn is_corruption(&self) -> bool {
        scripts::is_corruption(&self.error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { error, cause } = self;
        write!(f, "{} ({error}): {}", trouble::what(*cause), trouble::action(*cause))
    }
}
