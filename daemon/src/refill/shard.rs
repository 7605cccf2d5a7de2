//! One shard of a published token bucket, and the plan of its next pass.

use std::sync::Arc;

use topup_wire::{
    bucket::refill_period,
    connection::Address,
    hash_slot::HASH_SLOTS,
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Supply},
    namespace::Namespace,
};

use super::shard_pass::PassSummary;

/// The shortest time between two passes is the period divided by this. Buckets that fall due within it share a pass.
const PASSES_PER_PERIOD: u64 = 4;
/// The longest time between two passes, in µs, unless many shards are idle.
const LONGEST_WAIT: u64 = 1_000_000;

/// One shard of a published token bucket.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) limit: LimitName,
    pub(super) keys: Arc<ShardKeys>,
    /// The shortest time in µs after which a bucket that stops being full can be due.
    pub(super) period: u64,
    /// Whether tokens come at ticks only (no catch-up). A pass each tick then gives every bucket the tokens it is owed.
    pub(super) by_tick: bool,
    /// Whether the last pass found a counting bucket.
    pub(super) active: bool,
    /// Buckets credited by the last pass.
    pub(super) expected: u64,
    /// The instant of the next pass, in µs of Redis `TIME`; 0 for at once.
    pub(super) next: u64,
    /// Whether a pass has ended since the limit was published.
    pub(super) seen: bool,
    /// Whether a pass is in flight.
    pub(super) busy: bool,
    /// Whether nothing is known of its buckets: some may await migration, or have a score ahead of the clock.
    pub(super) unknown: bool,
    /// The cluster node that had the shard at the last pass.
    pub(super) node: Option<Address>,
}

// === impl Shard ===

impl Shard {
    /// The shards of `limit`; none if its algorithm needs no daemon.
    pub(super) fn of(namespace: Namespace, limit: &Limit) -> Vec<Self> {
        if limit.algorithm.is_script_only() {
            return Vec::new();
        }
        let (period, tick) = match limit.terms.supply {
            Supply::Rate(rate) => {
                let tick = limit.tick.as_micros() as u64;
                (refill_period(rate.pace(), limit.catch_up, tick), tick)
            }
            // The instants of a quota are known, so no tick matters.
            Supply::Period(_) | Supply::Windows(_) | Supply::Permits(_) => (LONGEST_WAIT, 0),
        };
        // If a token takes longer than a tick, a pass waits for that token instead.
        let by_tick = !limit.catch_up && period <= tick;
        let period = if by_tick { tick } else { period };
        let shard = |number| Self {
            limit: limit.name,
            keys: Arc::new(ShardKeys::new(namespace, &limit.name, number)),
            period,
            by_tick,
            active: false,
            expected: 0,
            next: 0,
            seen: false,
            busy: false,
            unknown: true,
            node: None,
        };
        (0..limit.shards.get()).map(shard).collect()
    }

    /// The instant of the next pass, in µs of Redis `TIME`, after one from `began` to `now` with this `summary`. Without
    /// a due bucket, the next pass comes after the period, or after `idle` µs if the last one credited nothing and `idle`
    /// is longer. By ticks, `idle` counts only where no bucket does.
    pub(super) fn next_pass(&self, began: u64, now: u64, summary: PassSummary, idle: u64) -> u64 {
        let is_idle = if self.by_tick { summary.next_due == u64::MAX } else { summary.credited == 0 };
        let wait = if is_idle { self.period.max(idle) } else { self.period };
        if self.by_tick {
            return self.tick_after(began + wait - self.period);
        }
        let due = now.saturating_add(summary.next_due).max(began + self.period / PASSES_PER_PERIOD);
        due.min(began + wait).min(now + LONGEST_WAIT.max(idle))
    }

    /// The first tick of this shard after `instant`. Each shard has ticks of its own, by its hash slot. This spreads the
    /// passes of many shards over a tick, also after an outage. A late pass does not delay the next one.
    fn tick_after(&self, instant: u64) -> u64 {
        let phase = self.period * u64::from(self.keys.hash_slot.number()) / u64::from(HASH_SLOTS);
        instant + self.period - (instant + self.period - phase) % self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, publish::desired_limits};

    fn shard(config: &str) -> Shard {
        let desired = desired_limits(&Config::parse(config, "config.toml").unwrap(), 1, |_| true);
        Shard::of(Namespace::default(), &desired[0].limit).remove(0)
    }

    /// A bucket of one tick's tokens that is emptied at once still gets nearly all of its rate.
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
            let summary = PassSummary { credited: u64::from(come > 0), next_due: TOKEN };
            assert!(now - last <= TICK + TICK / 4, "{} µs between two passes", now - last);
            // Takes empty it 2 ms later. A full bucket begins to fill only then.
            score = if come == 100 { now + 2_000 } else { score + come * TOKEN };
            (taken, last) = (taken + come, now);
            shard.next = shard.next_pass(now, now + 500, summary, 0);
        }
        let share = taken as f64 / ((end - start) / TOKEN) as f64;
        assert!(share > 0.97, "{share}");
    }

    #[test]
    fn missed_ticks_are_not_made_up_one_by_one() {
        const TICK: u64 = 100_000;
        let shard = shard("[limit.api]\ncapacity = 100\nrate = \"1000/s\"\ncatch_up = false\n");
        let credited = PassSummary { credited: 1, next_due: 1_000 };
        let tick = shard.tick_after(1_000_000);
        assert!((1_000_001..=1_000_000 + TICK).contains(&tick));
        // In time, late by most of a tick, and late by many ticks.
        assert_eq!(shard.next_pass(tick, tick + 500, credited, 0), tick + TICK);
        assert_eq!(shard.next_pass(tick + 99_000, tick + 120_000, credited, 0), tick + TICK);
        assert_eq!(shard.next_pass(tick + 40 * TICK + 7, tick + 41 * TICK, credited, 0), tick + 41 * TICK);
        // Another daemon has credited its buckets just before. It may not be there at the next tick.
        let others = PassSummary { credited: 0, next_due: 1_000 };
        assert_eq!(shard.next_pass(tick, tick + 500, others, 8 * TICK), tick + TICK);
        let empty = PassSummary { credited: 0, next_due: u64::MAX };
        assert_eq!(shard.next_pass(tick, tick + 500, empty, 8 * TICK), tick + 8 * TICK);
    }

    /// All shards are due at once after a start and after an outage.
    #[test]
    fn passes_of_many_shards_spread_over_a_tick() {
        const TICK: u64 = 4_000_000;
        const TURN: u64 = 25_000;
        let limits: String = (0..1_000)
            .map(|i| {
                format!(
                    "[limit.limit-{i}]\nkeyed = true\ncapacity = 9\nrate = \"1000/s\"\ncatch_up = false\n"
                )
            })
            .collect();
        let config = Config::parse(&format!("[daemon]\ntick = \"4s\"\n{limits}"), "config.toml").unwrap();
        let desired = desired_limits(&config, 1, |_| true);
        let mut shards: Vec<Shard> =
            desired.iter().flat_map(|one| Shard::of(Namespace::default(), &one.limit)).collect();
        assert_eq!(shards.len(), 8_000);
        let credited = PassSummary { credited: 1, next_due: 1_000 };
        for start in [1_000_000_000, 1_060_000_007] {
            for shard in &mut shards {
                shard.next = shard.next_pass(start, start + 1_000_000, credited, 0);
            }
            let mut turns = [0; (TICK / TURN) as usize];
            for shard in &shards {
                assert!((start + 1..=start + TICK).contains(&shard.next));
                turns[((shard.next - start - 1) / TURN) as usize] += 1;
            }
            let most = turns.into_iter().max().unwrap();
            assert!(most < 2 * shards.len() as u64 / (TICK / TURN), "{most} passes in one turn");
        }
    }

    #[test]
    fn only_limits_without_catch_up_are_passed_over_by_ticks() {
        for (limit, by_tick) in [
            ("rate = \"1000/s\"\ncatch_up = false", true),
            ("rate = \"1000/s\"", false),
            ("rate = \"1/s\"\ncatch_up = false", false),
        ] {
            assert_eq!(shard(&format!("[limit.api]\ncapacity = 9\n{limit}\n")).by_tick, by_tick, "{limit}");
        }
    }
}
