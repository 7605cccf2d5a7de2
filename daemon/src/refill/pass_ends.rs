//! The end of a pass over a shard: how late it was, and when the next one is due.

use std::{mem, sync::Arc, time::Duration};

use redis::RedisError;
use topup_wire::connection::Cause;

use super::{
    passes::{EndedPass, Passes},
    shard::Shard,
    timeouts::RETRY_PAUSE,
};

/// Passes per tick over shards without a due bucket. With more idle shards, each has its pass less often, so that their
/// cost stays the same.
const IDLE_PASSES: usize = 100;
/// The same where a bucket gets tokens at ticks only: each idle shard has its pass at each tick if there are fewer.
const IDLE_PASSES_BY_TICK: usize = 1_000;
/// The delay that is no lag: a tick, but no more than this.
const LAG_ALLOWANCE: Duration = Duration::from_millis(250);

// === impl Passes ===

impl Passes {
    /// Records a pass that ended at `now`, in µs of Redis `TIME`, and plans the next. Returns the time by which it was
    /// late.
    pub(super) fn ended(&mut self, ended: EndedPass, now: u64) -> Duration {
        let EndedPass { keys, index, began, result } = ended;
        let shards = self.shards.len();
        let is_of = |shard: &Shard| Arc::ptr_eq(&shard.keys, &keys);
        let index = match self.shards.get(index) {
            Some(shard) if is_of(shard) => Some(index),
            _ => self.shards.iter().position(is_of),
        };
        let Some((index, shard)) = index.and_then(|index| Some((index, self.shards.get_mut(index)?))) else {
            return Duration::ZERO;
        };
        shard.busy = false;
        let summary = match result {
            Ok(summary) => summary,
            Err(error) => {
                // Other shards go on. This one is tried again as one of which nothing is known.
                shard.unknown = true;
                shard.next = now + self.tick.max(RETRY_PAUSE).as_micros() as u64;
                self.metrics.failed(Cause::of(&error));
                self.log_failure(index, &error);
                return Duration::ZERO;
            }
        };
        let per_tick = if shard.by_tick { IDLE_PASSES_BY_TICK } else { IDLE_PASSES };
        let idle = self.tick.as_micros() as u64 * (shards / per_tick) as u64;
        let late = if shard.next == 0 { 0 } else { now.saturating_sub(shard.next.max(self.excused)) };
        let lag = Duration::from_micros(late).saturating_sub(self.tick.min(LAG_ALLOWANCE));
        (shard.expected, shard.active) = (summary.credited, summary.next_due < u64::MAX);
        shard.next = shard.next_pass(began, now, summary, idle);
        if !mem::replace(&mut shard.seen, true) {
            self.unseen -= 1;
        }
        self.log_lag(lag);
        self.metrics.lagged(lag);
        lag
    }

    fn log_failure(&mut self, index: usize, error: &RedisError) {
        if self.failure_log.should_log() {
            let due = &self.shards[index].keys.due;
            tracing::warn!("refilling {due} failed ({error}); trying again");
        }
    }

    fn log_lag(&mut self, lag: Duration) {
        if lag > self.tick && self.lag_log.should_log() {
            let tick = self.tick;
            tracing::warn!(
                "refilling is {lag:?} behind its tick of {tick:?}: Redis or this machine is overloaded"
            );
        }
    }
}
