//! The tokens of a bucket under a record as time goes on.

use topup_wire::{
    bucket::refill_period,
    constants::{BAND_STRIDE, LAST_BAND, LATEST_START, QUOTA_RETRY},
};

use super::Record;
use crate::{counter::Counter, time::Credit};

// === impl Record ===

impl Record {
    pub(crate) fn last_filled(&self, now: u64) -> u64 {
        if self.fills > 0 && now >= self.fills { self.fills } else { self.filled }
    }

    fn fresh(&self, now: u64) -> u64 {
        if self.pace.n == 0 { now.max(self.last_filled(now)) } else { self.pace.start(now) }
    }

    pub(crate) fn credit(&self, tokens: i64, score: u64, now: u64) -> (i64, u64) {
        if self.pace.n == 0 && score < self.last_filled(now) {
            return (self.capacity as i64, self.fresh(now));
        }
        if score > now + LATEST_START {
            return (tokens.min(self.capacity as i64), self.fresh(now));
        }
        let (k, at) = self.pace.owed(score, now);
        if i128::from(tokens) + k as i128 >= i128::from(self.capacity) {
            return (self.capacity as i64, self.fresh(now));
        }
        (tokens + k as i64, at)
    }

    pub(crate) fn absent(&self, now: u64) -> (i64, u64) {
        if self.anchor >= self.capacity {
            return (self.capacity as i64, self.fresh(now));
        }
        self.credit(self.anchor as i64, self.anchored, now)
    }

    /// The instant from which an absent bucket is full.
    pub fn absent_full(&self) -> u64 {
        if self.anchor >= self.capacity {
            return 0;
        }
        self.pace.instant(self.anchored, self.capacity - self.anchor)
    }

    pub(crate) fn time_to(&self, score: u64, k: u64, now: u64) -> u64 {
        if self.pace.n > 0 {
            return self.pace.instant(score, k).saturating_sub(now);
        }
        if self.fills > now { self.fills - now } else { QUOTA_RETRY }
    }

    /// µs from `now` until a bucket of `tokens` has `missing` more.
    pub(crate) fn wait_for(&self, tokens: i64, score: u64, missing: u64, now: u64) -> u64 {
        if self.schedule.is_empty() {
            return self.time_to(score, missing, now);
        }
        self.reached(tokens, score, Some(tokens + missing as i64)).saturating_sub(now)
    }

    pub(crate) fn headroom(&self, score: u64, tokens: i64, now: u64) -> u64 {
        let full = if self.pace.n > 0 { self.pace.instant(score, self.missing(tokens)) } else { self.fills };
        full.saturating_sub(now)
    }

    /// Tokens until a bucket of `tokens` is full.
    pub(crate) fn missing(&self, tokens: i64) -> u64 {
        (self.capacity as i64 - tokens) as u64
    }

    pub(crate) fn counter(&self, tokens: i64, score: u64) -> Counter {
        let band = self.band(tokens);
        Counter { tokens, score, band, is_previous: false }
    }

    /// The shortest time, in µs, from being credited to being due again.
    pub fn period(&self) -> u64 {
        refill_period(self.pace, self.catch_up, self.tick)
    }

    /// Backoff band of a bucket: in band 1 it cannot be full for 5 periods, in band 2 for 20, and so on.
    pub fn band(&self, tokens: i64) -> u32 {
        if self.pace.n == 0 || !self.catch_up {
            return 0;
        }
        // Doubles, as in Lua.
        let in_a_period = (self.period() as f64 * self.pace.n as f64 / self.pace.p as f64).ceil();
        let missing = self.missing(tokens) as f64;
        let near = (BAND_STRIDE + 1) as f64 * in_a_period;
        (0..LAST_BAND).take_while(|band| missing > near * BAND_STRIDE.pow(*band) as f64).count() as u32
    }
}
