//! Moves of the clock: it stops at each instant that something waits for.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::topup::{BEGAN, Topup};
use crate::shell::{clock::micros, manual_clock::Precision};

/// Turns of all tasks in which nothing happens, before the clock moves on.
const QUIET: u32 = 16;
/// Most turns at one instant. Tasks that never stop asking stop the clock no longer.
const MOST_TURNS: u32 = 100_000;
/// The same on several threads, where a turn is a ms.
const QUIET_MS: u32 = 3;
const MOST_MS: u32 = 1_000;

// === impl Topup ===

impl Topup {
    /// Moves the clock by `duration`, in whole µs. It stops at each instant that something waits for, and lets all tasks
    /// run there. When it returns, everything that was due has happened.
    pub async fn advance(&self, duration: Duration) {
        let _moving = self.0.moves.lock().await;
        self.settle().await;
        let from = self.0.redis.now();
        let target = from.saturating_add(micros(duration));
        loop {
            let redis = &self.0.redis;
            let stops =
                [self.0.clock.next().map(|at| at.saturating_add(BEGAN)), self.daemon().next(), redis.next()];
            let now = self.0.redis.now();
            let next = stops.into_iter().flatten().min().filter(|at| *at < target);
            let at = next.unwrap_or(target).max(now);
            self.0.redis.set_now(at);
            self.0.clock.set(at - BEGAN);
            if self.0.redis.deliver() {
                self.settle().await;
            }
            if !self.0.redis.is_away() {
                // The Redis in memory refuses nothing that the daemon asks.
                let ran = self.daemon().run(at);
                debug_assert!(ran.is_ok(), "{ran:?}");
            }
            for precision in [Precision::Coarse, Precision::Exact] {
                if self.0.clock.wake(precision) {
                    self.settle().await;
                }
            }
            if next.is_none() {
                return;
            }
        }
    }

    /// Lets all tasks run until nothing more happens.
    async fn settle(&self) {
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let (enough, most) = if is_alone { (QUIET, MOST_TURNS) } else { (QUIET_MS, MOST_MS) };
        let activity = || self.0.clock.activity().wrapping_add(self.0.redis.commands());
        let (mut quiet, mut before) = (0, activity());
        for _ in 0..most {
            if is_alone {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let now = activity();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            if quiet >= enough {
                return;
            }
        }
    }
}
