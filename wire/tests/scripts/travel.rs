//! Making time pass without waiting for it.

use redis::Script;
use topup_twin::{AtRest, Bucket, Record};
use topup_wire::{
    keyspace::ShardKeys,
    limit::{Limit, Schedule, ScheduledChange, Supply},
};

use crate::server::Redis;

/// Makes `by` µs pass for one shard, or steps its clock back when `by` is below 0.
pub(crate) async fn travel(redis: &mut Redis, keys: &ShardKeys, by: i64) {
    let script = Script::new(include_str!("travel.lua"));
    let mut call = script.key(&keys.record);
    redis.call::<()>(call.key(&keys.due).key(&keys.previous).key(&keys.counters).arg(by)).await;
}

/// The same for the twin.
pub(crate) fn travel_twin(limit: &mut Limit, record: &mut Record, buckets: &mut [Bucket], by: i64) {
    travel_record(limit, record, by);
    for bucket in buckets {
        match bucket {
            Bucket::Absent => {}
            Bucket::AtRest(at_rest) => *at_rest = travelled(*at_rest, by),
            Bucket::Counting(held) => earlier(&mut held.score, by),
        }
    }
}

/// The same for the twin of a bucket at rest.
pub(crate) fn travelled(at_rest: AtRest, by: i64) -> AtRest {
    match at_rest {
        AtRest::FirstTake { tag, count, expires } => {
            let expires = expires.saturating_add_signed(-by.div_euclid(1_000));
            AtRest::FirstTake { tag, count, expires }
        }
        AtRest::Until { tag, mut full_at, early, mut hold } => {
            earlier(&mut full_at, by);
            earlier(&mut hold, by);
            AtRest::Until { tag, full_at, early, hold }
        }
        AtRest::Debt { tag, mut at, mut hold, debt } => {
            earlier(&mut at, by);
            earlier(&mut hold, by);
            AtRest::Debt { tag, at, hold, debt }
        }
    }
}

/// The same for the twin of a record.
pub(crate) fn travel_record(limit: &mut Limit, record: &mut Record, by: i64) {
    if let Supply::Period(period) = &mut limit.terms.supply {
        earlier(&mut period.since, by);
        earlier(&mut period.next, by);
    }
    for instant in [&mut record.filled, &mut record.fills, &mut record.since, &mut record.anchored] {
        earlier(instant, by);
    }
    let moved = |mut change: ScheduledChange| {
        earlier(&mut change.at, by);
        change
    };
    record.schedule = Schedule::new(record.schedule.changes().map(moved));
    limit.schedule = record.schedule;
    if let Some(before) = &mut record.previous {
        earlier(&mut before.filled, by);
    }
    for before in record.earlier.iter_mut().flatten() {
        earlier(&mut before.ended, by);
        earlier(&mut before.terms.filled, by);
    }
}

fn earlier(instant: &mut u64, by: i64) {
    // 0 is none, and 2^53 never.
    if *instant > 0 && *instant < 1 << 53 {
        *instant = instant.checked_add_signed(-by).unwrap();
    }
}
