//! One shard's share of a pass.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    bucket::refill_period,
    connection::{Address, Connection},
    keyspace::ShardKeys,
    limit::{Limit, Supply},
    scripts::{self, Look},
};

use super::lane::Lane;
use crate::publish::carry_all;

/// Looks at a shard in a period: what comes due between two of them is credited together.
const LOOKS: u64 = 4;
/// However slow its limit, a shard is looked at this often, in µs.
const LOOK_EVERY: u64 = 1_000_000;

/// One shard of a published token bucket, and when to look at it next.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Arc<ShardKeys>,
    /// How soon, in µs, a bucket that stops being full can be due.
    pub(crate) period: u64,
    /// Without catch-up, tokens come at ticks only: a look each tick gives every bucket what has come by then.
    pub(crate) by_tick: bool,
    /// Whether there was a bucket when it was looked at last.
    pub(crate) active: bool,
    /// Buckets credited by the last pass.
    pub(crate) expected: u64,
    /// When to look at it next, in µs of Redis `TIME`.
    pub(crate) next: u64,
    /// Looked at since it was published.
    pub(crate) seen: bool,
    /// Being refilled now; a shard is never more than one pass behind.
    pub(crate) busy: bool,
    /// Nothing is known of its buckets: some may have to be carried over a change, or be ahead of the clock.
    pub(crate) anew: bool,
    /// The node of a cluster that had it last.
    pub(crate) node: Option<Address>,
}

/// What a pass over one shard came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Buckets credited.
    pub(crate) credited: u64,
    /// In how many µs the next of the buckets there are is due; those that stop being full come on top. By the clock of
    /// the node that has them, which may be another one than the heartbeat's.
    pub(crate) due: u64,
}

/// What to do in a pass over one shard.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) keys: Arc<ShardKeys>,
    pub(crate) active: bool,
    /// Buckets credited by the last pass: as many may be due now.
    pub(crate) expected: u64,
    pub(crate) anew: bool,
    /// Where slices queue.
    pub(crate) lane: Lane,
    /// Counts the buckets that are credited.
    pub(crate) credited: Arc<AtomicU64>,
    /// Set when the daemon stops: the slice at hand is the last.
    pub(crate) stop: Arc<AtomicBool>,
}

// === impl Shard ===

impl Shard {
    /// The shards of `limit` that a daemon refills: none when the limit needs no daemon.
    pub(crate) fn of(limit: &Limit) -> Vec<Self> {
        if limit.algorithm.is_script_only() {
            return Vec::new();
        }
        let (period, tick) = match limit.terms.supply {
            Supply::Rate(rate) => {
                let tick = limit.tick.as_micros() as u64;
                (refill_period(rate.pace(), limit.catch_up, tick), tick)
            }
            // Of a quota it is known when they are.
            Supply::Period(_) | Supply::Windows(_) => (LOOK_EVERY, 0),
        };
        // Where a token takes longer than a tick, a look is for that token.
        let by_tick = !limit.catch_up && period <= tick;
        let period = if by_tick { tick } else { period };
        let shard = |number| Self {
            keys: Arc::new(ShardKeys::new(&limit.name, number)),
            period,
            by_tick,
            active: false,
            expected: 0,
            next: 0,
            seen: false,
            busy: false,
            anew: true,
            node: None,
        };
        (0..limit.shards.get()).map(shard).collect()
    }

    /// When to look again, in µs of Redis `TIME`, after a pass that `began` and came to `done` by `now`. One that found
    /// nothing to credit is not looked at again for `idle` µs.
    pub(crate) fn next_look(&self, began: u64, now: u64, done: Done, idle: u64) -> u64 {
        let look = if done.credited == 0 { self.period.max(idle) } else { self.period };
        if self.by_tick {
            // From tick to tick, however late each look: what is late by itself is not to be late for the next one.
            let planned = if self.next == 0 { began } else { self.next };
            return if planned + look + self.period > now { planned + look } else { now };
        }
        let due = now.saturating_add(done.due).max(began + self.period / LOOKS);
        due.min(began + look).min(now + LOOK_EVERY.max(idle))
    }
}

// === impl Errand ===

impl Errand {
    /// Credits every bucket of the shard that is due, slice by slice.
    pub(crate) async fn run(self, connection: Connection) -> RedisResult<Done> {
        let conn = &mut connection.clone();
        if self.anew && self.lane.look(scripts::is_migrating(conn, &self.keys)).await? {
            self.lane.alone(carry_all(&connection, &self.keys)).await?;
        }
        let mut done = Done { credited: 0, due: u64::MAX };
        if !self.active && !self.lane.look(scripts::is_active(conn, &self.keys)).await? {
            return Ok(done);
        }
        let mut look = if self.anew { Look::All } else { Look::Due };
        let mut expected = self.expected;
        while !self.stop.load(Relaxed) {
            let slice =
                self.lane.slice(expected, |most| scripts::refill(conn, &self.keys, most, look)).await?;
            done.credited += slice.credited;
            self.credited.fetch_add(slice.credited, Relaxed);
            done.due = slice.again.saturating_sub(slice.now);
            if slice.again > slice.now {
                break;
            }
            if look == Look::All {
                look = Look::Rest(slice.now);
            }
            expected = slice.credited;
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, wanted::wanted};

    fn shard(config: &str) -> Shard {
        let wanted = wanted(&Config::parse(config, "config.toml").unwrap(), 1, |_| true);
        Shard::of(&wanted[0].limit).remove(0)
    }

    /// A bucket that holds no more than comes in a tick and is emptied at once has nearly all of its rate.
    #[test]
    fn an_emptied_bucket_is_filled_within_a_tick() {
        const TICK: u64 = 100_000;
        const TOKEN: u64 = 1_000;
        let mut shard = shard("[limit.api]\ncapacity = 100\nrate = \"1000/s\"\ncatch_up = false\n");
        assert!(shard.by_tick);
        let (start, end) = (1_000_000_000, 1_060_000_000);
        let (mut taken, mut score, mut last) = (0, start, start);
        // Four turns a tick, each of them late by up to 3 ms.
        for turn in 0..(end - start) * 4 / TICK {
            let now = start + turn * TICK / 4 + turn * 7_919 % 3_000;
            if shard.next > now {
                continue;
            }
            let come = ((now - score) / TOKEN).min(100);
            let done = Done { credited: u64::from(come > 0), due: TOKEN };
            assert!(now - last <= TICK + TICK / 4, "{} µs from look to look", now - last);
            // Emptied 2 ms later; a full bucket begins to fill by then.
            score = if come == 100 { now + 2_000 } else { score + come * TOKEN };
            (taken, last) = (taken + come, now);
            shard.next = shard.next_look(now, now + 500, done, 0);
        }
        let share = taken as f64 / ((end - start) / TOKEN) as f64;
        assert!(share > 0.97, "{share}");
    }

    #[test]
    fn a_daemon_that_was_away_for_many_ticks_does_not_make_up_for_each() {
        let mut shard = shard("[limit.api]\ncapacity = 100\nrate = \"1000/s\"\ncatch_up = false\n");
        shard.next = 1_000_000;
        let done = Done { credited: 1, due: 1_000 };
        assert_eq!(shard.next_look(1_010_000, 1_011_000, done, 0), 1_100_000);
        assert_eq!(shard.next_look(5_010_000, 5_011_000, done, 0), 5_011_000);
    }

    #[test]
    fn only_what_comes_at_ticks_is_looked_at_by_ticks() {
        for (limit, by_tick) in [
            ("rate = \"1000/s\"\ncatch_up = false", true),
            ("rate = \"1000/s\"", false),
            ("rate = \"1/s\"\ncatch_up = false", false),
        ] {
            assert_eq!(shard(&format!("[limit.api]\ncapacity = 9\n{limit}\n")).by_tick, by_tick, "{limit}");
        }
    }
}
