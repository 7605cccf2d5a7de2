//! The deadline of a call that Redis may tell to come again.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::clock::{Clock, micros};

/// A deadline. The times for which Redis tells the call to wait are no part of it.
#[derive(Debug)]
pub(crate) struct Deadline<'c> {
    clock: &'c Clock,
    until: AtomicU64,
    /// By how many µs it may still be put off.
    more: AtomicU64,
}

// === impl Deadline ===

impl<'c> Deadline<'c> {
    /// A deadline in `left`, put off by no more than `most` in all.
    pub(crate) fn new(clock: &'c Clock, left: Duration, most: Duration) -> Self {
        let until = clock.now().saturating_add(micros(left));
        Self { clock, until: until.into(), more: micros(most).into() }
    }

    pub(crate) const fn clock(&self) -> &Clock {
        self.clock
    }

    /// The time until it.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_micros(self.until.load(Relaxed).saturating_sub(self.clock.now()))
    }

    /// Waits as Redis tells.
    pub(crate) async fn wait(&self, wait: Duration) {
        let more = self.more.load(Relaxed);
        let by = micros(wait).min(more);
        self.more.store(more - by, Relaxed);
        self.until.fetch_add(by, Relaxed);
        self.clock.sleep(wait).await;
    }

    /// The output of `call`; `None` if it does not come within the deadline.
    pub(crate) async fn within<F: Future>(&self, call: F) -> Option<F::Output> {
        let mut call = pin!(call);
        loop {
            let until = self.until.load(Relaxed);
            if let Ok(output) = self.clock.timeout(self.left(), &mut call).await {
                return Some(output);
            }
            if self.until.load(Relaxed) == until {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(60);

    #[tokio::test]
    async fn the_time_that_a_call_is_told_to_wait_is_no_part_of_its_deadline() {
        let clock = Clock::start();
        let deadline = Deadline::new(&clock, Duration::from_secs(600), MOST);
        let until = deadline.until.load(Relaxed);
        for (told, put_off_by) in [(20_000, 20_000), (30_000, 50_000), (20_000, 60_000), (20_000, 60_000)] {
            deadline.wait(Duration::from_micros(told)).await;
            assert_eq!(deadline.until.load(Relaxed), until + put_off_by);
        }
        assert_eq!(deadline.within(async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn a_call_that_has_waited_and_gets_no_answer_ends() {
        let clock = Clock::start();
        let deadline = Deadline::new(&clock, Duration::ZERO, MOST);
        let never = async {
            deadline.wait(Duration::from_millis(5)).await;
            std::future::pending::<()>().await;
        };
        assert_eq!(deadline.within(never).await, None);
    }
}
