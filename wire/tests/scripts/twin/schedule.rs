//! Changes that a schedule makes without a daemon: the scripts and their twin follow them alike.

use rand::{RngExt, rngs::StdRng};
use topup_wire::{
    bucket::Operation,
    limit::{Schedule, ScheduledChange, Supply, Terms},
    scripts::Look,
};

use super::{
    counters::in_doubt,
    world::{MEMBERS, World},
};
use crate::{
    generators::{
        FARTHEST, ahead, any_size, capacity, count, limit, on_change, packed_rate, seeds, some_time,
        terms_of_numbers,
    },
    server::Redis,
};

const WORLDS: u64 = 20;
const STEPS: usize = 100;

#[tokio::test]
async fn token_buckets_follow_a_schedule() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut first = limit(1, "1/s");
        first.terms = terms(&mut rng);
        first.on_change = on_change(&mut rng);
        first.schedule = schedule(&mut rng, redis.time().await, terms);
        let mut world = World::new(redis, first).await;
        for _ in 0..STEPS {
            step(&mut world, &mut rng).await;
            world.compare().await;
        }
        redis = world.redis;
    }
}

/// Up to six changes, of which some may be over.
pub(super) fn schedule(rng: &mut StdRng, now: u64, terms: impl Fn(&mut StdRng) -> Terms) -> Schedule {
    let mut at = now - 1_000_000;
    let apart = any_size(rng, 1 << 42).max(1_000_000);
    let changes: Vec<ScheduledChange> = (0..rng.random_range(1..=6))
        .map(|_| {
            let Terms { capacity, supply: Supply::Rate(rate) } = terms(rng) else { panic!("no rate") };
            at += rng.random_range(1..=apart);
            ScheduledChange { at, capacity, rate }
        })
        .collect();
    Schedule::new(changes)
}

/// Terms of all forms. No full instant is so far ahead that a value at rest cannot tell it.
fn terms(rng: &mut StdRng) -> Terms {
    if rng.random_bool(0.5) {
        return terms_of_numbers(rng);
    }
    loop {
        let (capacity, rate) = (capacity(rng), packed_rate(rng));
        if rate.pace().can_rest(capacity.get()) {
            return Terms { capacity, supply: Supply::Rate(rate) };
        }
    }
}

async fn step(world: &mut World, rng: &mut StdRng) {
    let i = rng.random_range(0..MEMBERS.len());
    let may_count = rng.random_bool(0.6);
    let now = world.redis.time().await;
    let overdue = world.twin.record.schedule.first_at().is_some_and(|at| at <= now);
    match rng.random_range(0..100) {
        0..30 => drop(world.settle(i, Operation::Take(1), may_count, None).await),
        30..47 => {
            let count = count(&world.twin.record, rng);
            let operations =
                [Operation::Take, Operation::Share, Operation::Lease, Operation::Peek, Operation::Refund];
            let operation = operations[rng.random_range(0..5)](count);
            world.settle(i, operation, may_count, in_doubt(world, i, rng)).await;
        }
        47..50 => {
            let ahead = ahead(&world.twin.record, rng);
            world.settle(i, ahead, false, None).await;
        }
        50 => drop(world.settle(i, Operation::Reset, may_count, None).await),
        // Workers take by scripts only once a change is due.
        51..58 if !overdue => world.first_take(i, count(&world.twin.record, rng)).await,
        58..66 if !overdue => drop(world.decrement(i).await),
        66..70 => world.refill(rng.random_range(1..=MEMBERS.len() + 1), Look::All).await,
        70..82 => {
            let by = some_time(&world.twin.record, rng);
            let by = if rng.random_bool(0.1) { -by } else { by };
            if (world.travelled + by).abs() < FARTHEST {
                world.travel(by).await;
            }
        }
        82..86 => {
            // To the next change, or over it.
            let at = world.twin.record.schedule.first_at().unwrap_or(0);
            let by = at.saturating_sub(now) + any_size(rng, 1 << 24);
            if at > 0 && (world.travelled + by as i64).abs() < FARTHEST {
                world.travel(by as i64).await;
            }
        }
        86..90 => world.catch_up_with_schedule().await,
        90..97 => world.migrate(&[0, 1, 2, 3]).await,
        _ => world.evict(i).await,
    }
}
