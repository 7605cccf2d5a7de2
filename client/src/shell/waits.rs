//! Waits by the worker's clock.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use super::clock::Clock;
#[cfg(feature = "testing")]
use super::manual_clock::Precision;

/// An interval of the worker's clock. A late tick delays those behind it.
#[derive(Debug)]
pub(crate) struct Ticks {
    interval: Interval,
    #[cfg(feature = "testing")]
    is_first: bool,
}

/// The time of a call was over.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) struct Late;

// === impl Clock ===

impl Clock {
    /// Waits for a duration.
    #[cfg(not(feature = "testing"))]
    pub(crate) fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }

    /// The result of `future`, or an error after a duration.
    #[cfg(not(feature = "testing"))]
    pub(crate) fn timeout<F: Future>(&self, duration: Duration, future: F) -> tokio::time::Timeout<F> {
        tokio::time::timeout(duration, future)
    }

    /// Waits for a duration.
    #[cfg(feature = "testing")]
    pub(crate) async fn sleep(&self, duration: Duration) {
        match self.manual() {
            Some(manual) => manual.sleep(duration, Precision::Exact).await,
            None => tokio::time::sleep(duration).await,
        }
    }

    /// The result of `future`, or an error after a duration.
    #[cfg(feature = "testing")]
    pub(crate) async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Late> {
        let future = std::pin::pin!(future);
        match self.manual() {
            Some(manual) => {
                let sleep = manual.sleep(duration, Precision::Exact);
                match futures_util::future::select(future, sleep).await {
                    futures_util::future::Either::Left((output, _)) => Ok(output),
                    futures_util::future::Either::Right(_) => Err(Late),
                }
            }
            None => tokio::time::timeout(duration, future).await.map_err(|_| Late),
        }
    }

    /// Waits for a duration after which nothing is due but a look around.
    pub(crate) async fn idle(&self, duration: Duration) {
        #[cfg(feature = "testing")]
        if let Some(manual) = self.manual() {
            return manual.sleep(duration, Precision::Coarse).await;
        }
        tokio::time::sleep(duration).await;
    }

    /// Ticks in which nothing is decided. The first one is at once.
    pub(crate) fn ticks(&self, every: Duration) -> Ticks {
        let mut interval = tokio::time::interval(every);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks {
            interval,
            #[cfg(feature = "testing")]
            is_first: true,
        }
    }
}

// === impl Ticks ===

impl Ticks {
    /// Waits for the next tick.
    #[cfg_attr(not(feature = "testing"), allow(unused_variables, reason = "a test's clock brings the ticks"))]
    pub(crate) async fn tick(&mut self, clock: &Clock) {
        #[cfg(feature = "testing")]
        if clock.manual().is_some() {
            if !std::mem::take(&mut self.is_first) {
                clock.idle(self.interval.period()).await;
            }
            return;
        }
        self.interval.tick().await;
    }
}
