//! The attempts of running traffic, logged as they are answered.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

use crate::Attempt;

/// Deadline of a wait for traffic: ten times the longest that a test runs on an idle machine.
pub const TRAFFIC: Duration = Duration::from_secs(100);

/// A log to which tasks and worker processes add attempts. A test waits for some of them instead of for a time.
#[derive(Clone, Debug, Default)]
pub struct AttemptLog(watch::Sender<Logged>);

#[derive(Debug, Default)]
struct Logged {
    attempts: Vec<Attempt>,
    allowed: usize,
    failed: usize,
}

// === impl AttemptLog ===

impl AttemptLog {
    /// Adds an attempt.
    pub fn push(&self, attempt: Attempt) {
        self.0.send_modify(|logged| {
            logged.allowed += usize::from(attempt.is_allowed());
            logged.failed += usize::from(attempt.error().is_some());
            logged.attempts.push(attempt);
        });
    }

    /// Waits until `count` more takes are allowed.
    pub async fn allowed(&self, count: usize) {
        self.more(count, "allowed", |logged| logged.allowed).await;
    }

    /// Waits until `count` more takes are answered, an error included.
    pub async fn answered(&self, count: usize) {
        self.more(count, "answered", |logged| logged.attempts.len()).await;
    }

    /// Waits until `count` more takes end in an error.
    pub async fn failed(&self, count: usize) {
        self.more(count, "failed", |logged| logged.failed).await;
    }

    /// Answered takes that were sent at the instant `from` or later.
    #[must_use]
    pub fn sent_since(&self, from: u64) -> usize {
        self.0.borrow().attempts.iter().filter(|attempt| attempt.sent >= from).count()
    }

    /// All attempts so far, in the order of their answers. The log is empty afterwards.
    #[must_use]
    pub fn take(&self) -> Vec<Attempt> {
        let mut attempts = self.0.send_replace(Logged::default()).attempts;
        attempts.sort_by_key(|attempt| attempt.received);
        attempts
    }

    async fn more(&self, count: usize, what: &str, counted: impl Fn(&Logged) -> usize) {
        let mut log = self.0.subscribe();
        let before = counted(&log.borrow());
        let reached =
            timeout(TRAFFIC, log.wait_for(|logged| counted(logged) >= before + count)).await.is_ok();
        let more = counted(&self.0.borrow()) - before;
        assert!(reached, "{more} instead of {count} more takes were {what} within {TRAFFIC:?}");
    }
}
